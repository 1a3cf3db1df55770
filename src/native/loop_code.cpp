// SPDX-License-Identifier: Apache-2.0
#include "native/loop_code.h"

#include "native/demangle.h"
#include "native/elf_image.h"
#include "native/unpack.h"

#include <fcntl.h>
#include <algorithm>

namespace pyprof {
namespace {

constexpr std::string_view kLoop = "_PyEval_EvalFrameDefault";
constexpr std::size_t kMostSymbols = std::size_t{4} << 20;
constexpr std::size_t kMostParts = 64;

using Parts = std::vector<ModuleFile::Section>;

void add_parts(const ElfImage& image, Parts& parts) {
    std::size_t left = kMostSymbols;
    for (const GElf_Word table : {GElf_Word{SHT_DYNSYM}, GElf_Word{SHT_SYMTAB}}) {
        image.for_each_symbol(table, left, [&](const GElf_Sym& symbol, std::size_t string_section) {
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 || parts.size() >= kMostParts) return;
            const char* name = elf_strptr(image.get(), string_section, symbol.st_name);
            if (name == nullptr || !std::string_view(name).starts_with(kLoop) || without_clone_suffix(name) != kLoop) return;
            const FileAddress start{symbol.st_value};
            const bool is_known = std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.address == start; });
            if (!is_known) parts.push_back({start, symbol.st_size});
        });
    }
}

// Of a stripped file: what it packs up itself, or its debug file, names the parts that it does not export.
void add_parts_of_stripped(const ElfImage& image, const std::string& path, const DebugSearch& search, Parts& parts) {
    if (const auto packed = image.find_section(".gnu_debugdata")) {
        if (const auto inner = ElfImage::open(unpack_xz(ElfImage::bytes_of(*packed)))) return add_parts(*inner, parts);
    }
    if (const auto debug = find_debug_file(image, path, search)) add_parts(*debug, parts);
}

}  // namespace

Parts find_loop_code(ModuleFile& file, const std::string& path, const DebugSearch& search) {
    Parts parts;
    if (file.descriptor() < 0) {
        if (const auto loop = file.find_symbol(kLoop)) parts.push_back(*loop);
        return parts;
    }
    const auto image = ElfImage::open(UniqueFd(::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 3)));
    if (!image) return parts;
    add_parts(*image, parts);
    // Every interpreter exports the loop: other libraries are not searched for.
    if (!parts.empty() && !image->find_section(".symtab")) add_parts_of_stripped(*image, path, search, parts);
    return parts;
}

}  // namespace pyprof
