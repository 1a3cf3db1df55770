// SPDX-License-Identifier: Apache-2.0
#include "native/loop_code.h"

#include "native/demangle.h"
#include "native/elf_image.h"

#include <fcntl.h>
#include <algorithm>

namespace pyprof {
namespace {

constexpr std::string_view kLoop = "_PyEval_EvalFrameDefault";
constexpr std::size_t kMostSymbols = std::size_t{4} << 20;
constexpr std::size_t kMostParts = 64;

}  // namespace

std::vector<ModuleFile::Section> find_loop_code(ModuleFile& file) {
    std::vector<ModuleFile::Section> parts;
    if (file.descriptor() < 0) {
        if (const auto loop = file.find_symbol(kLoop)) parts.push_back(*loop);
        return parts;
    }
    const auto image = ElfImage::open(UniqueFd(::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 3)));
    if (!image) return parts;
    std::size_t left = kMostSymbols;
    for (const GElf_Word table : {SHT_DYNSYM, SHT_SYMTAB}) {
        image->for_each_symbol(table, left, [&](const GElf_Sym& symbol, std::size_t string_section) {
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 || parts.size() >= kMostParts) return;
            const char* name = elf_strptr(image->get(), string_section, symbol.st_name);
            if (name == nullptr || !std::string_view(name).starts_with(kLoop) || without_clone_suffix(name) != kLoop) return;
            const FileAddress start{symbol.st_value};
            const bool is_known = std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.address == start; });
            if (!is_known) parts.push_back({start, symbol.st_size});
        });
    }
    return parts;
}

}  // namespace pyprof
