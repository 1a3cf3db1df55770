// SPDX-License-Identifier: Apache-2.0
//
// System V x86-64 ABI, "Procedure Linkage Table": a stub contains `jmp *slot(%rip)` (ff 25 and a distance), with a
// bnd prefix or behind an endbr64 in some of its forms. Whatever stands in .plt* and jumps so is a stub.
#include "native/plt_names.h"

#include <pyprof/memory.h>

#include <tsl/robin_map.h>

#include <string>

namespace pyprof {
namespace {

constexpr std::size_t kMostRelocations = std::size_t{1} << 20;
constexpr std::size_t kMostStubBytes = std::size_t{16} << 20;
constexpr std::size_t kJump = 6;
constexpr std::uint32_t kEndbr64 = 0xfa1e0ff3;

using Slots = tsl::robin_map<std::uint64_t, std::string>;

const char* name_of(const ElfImage& image, GElf_Word table, std::uint64_t index) {
    Elf_Scn* scn = elf_getscn(image.get(), table);
    GElf_Shdr header;
    GElf_Sym symbol;
    if (scn == nullptr || gelf_getshdr(scn, &header) == nullptr) return nullptr;
    Elf_Data* data = elf_getdata(scn, nullptr);
    if (data == nullptr || index > 0x7fffffff) return nullptr;
    if (gelf_getsym(data, static_cast<int>(index), &symbol) == nullptr) return nullptr;
    return elf_strptr(image.get(), header.sh_link, symbol.st_name);
}

Slots read_slots(const ElfImage& image) {
    Slots slots;
    for (const ElfImage::Section& section : image.sections()) {
        if (section.header.sh_type != SHT_RELA || section.header.sh_entsize == 0) continue;
        Elf_Data* data = elf_getdata(section.handle, nullptr);
        if (data == nullptr) continue;
        const std::size_t count = std::min(data->d_size / section.header.sh_entsize, kMostRelocations);
        for (std::size_t i = 0; i < count; ++i) {
            GElf_Rela relocation;
            if (gelf_getrela(data, static_cast<int>(i), &relocation) == nullptr) break;
            const std::uint64_t type = GELF_R_TYPE(relocation.r_info);
            if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
            const char* name = name_of(image, section.header.sh_link, GELF_R_SYM(relocation.r_info));
            if (name != nullptr && *name != '\0') slots.emplace(relocation.r_offset, name);
        }
    }
    return slots;
}

bool begins_with_endbr64(std::span<const std::byte> code) {
    return code.size() >= 4 && load<std::uint32_t>(code.data(), 0) == kEndbr64;
}

}  // namespace

void add_plt_names(const ElfImage& image, SymbolTable& symbols) {
    GElf_Ehdr header;
    if (gelf_getehdr(image.get(), &header) == nullptr || header.e_machine != EM_X86_64) return;
    Slots slots;
    for (const ElfImage::Section& section : image.sections()) {
        if (section.name.substr(0, 4) != ".plt") continue;
        if (slots.empty()) slots = read_slots(image);
        if (slots.empty()) return;
        const std::span<const std::byte> code = ElfImage::bytes_of(section);
        // In .plt.got a jump and two bytes that fill up; for indirect branch tracking an endbr64 stands before it.
        const bool is_short = section.name == ".plt.got" && !begins_with_endbr64(code);
        const std::size_t step = is_short ? 8 : 16;
        for (std::size_t stub = 0; stub + step <= std::min(code.size(), kMostStubBytes); stub += step) {
            for (std::size_t at = stub; at + kJump <= stub + step; ++at) {
                if (load<std::uint8_t>(code.data(), at) != 0xff || load<std::uint8_t>(code.data(), at + 1) != 0x25) continue;
                const auto reach = static_cast<std::uint64_t>(std::int64_t{load<std::int32_t>(code.data(), at + 2)});
                const auto slot = slots.find(section.header.sh_addr + at + kJump + reach);
                if (slot != slots.end()) symbols.add(FileAddress{section.header.sh_addr + stub}, step, slot->second + "@plt");
                break;
            }
        }
    }
}

}  // namespace pyprof
