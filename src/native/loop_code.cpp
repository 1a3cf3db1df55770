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

// `left`: symbols that may still be looked at, of all tables.
void add_parts(const ElfImage& image, const ElfImage::Section& table, std::size_t& left, std::vector<ModuleFile::Section>& parts) {
    Elf_Data* data = elf_getdata(table.handle, nullptr);
    if (data == nullptr || table.header.sh_entsize == 0) return;
    const std::size_t count = std::min(data->d_size / table.header.sh_entsize, left);
    left -= count;
    for (std::size_t i = 0; i < count && parts.size() < kMostParts; ++i) {
        GElf_Sym symbol;
        if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) continue;
        const char* name = elf_strptr(image.get(), table.header.sh_link, symbol.st_name);
        if (name == nullptr || !std::string_view(name).starts_with(kLoop) || without_clone_suffix(name) != kLoop) continue;
        const FileAddress start{symbol.st_value};
        const bool is_known = std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.address == start; });
        if (!is_known) parts.push_back({start, symbol.st_size});
    }
}

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
    for (const ElfImage::Section& section : image->sections()) {
        if (section.header.sh_type == SHT_DYNSYM || section.header.sh_type == SHT_SYMTAB) add_parts(*image, section, left, parts);
    }
    return parts;
}

}  // namespace pyprof
