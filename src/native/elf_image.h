// SPDX-License-Identifier: Apache-2.0
//
// An ELF file opened for its symbols and debug information: from a descriptor, which is read and never mapped
// (a mapping of a file that shrinks is a SIGBUS), or from bytes of ours (the vdso, an unpacked table).
#pragma once

#include "base/unique_fd.h"

#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

class ElfImage {
public:
    static std::optional<ElfImage> open(UniqueFd file);
    static std::optional<ElfImage> open(std::vector<char> bytes);

    [[nodiscard]] Elf* get() const { return elf_.get(); }
    [[nodiscard]] int fd() const { return file_.get(); }  // -1: bytes of ours

    struct Section {
        Elf_Scn* handle = nullptr;
        GElf_Shdr header{};
        std::string_view name;
    };
    [[nodiscard]] std::optional<Section> find_section(std::string_view name) const;
    [[nodiscard]] std::vector<Section> sections() const;
    // Calls visit(symbol, string_section) for each symbol of the tables of this type (SHT_SYMTAB, SHT_DYNSYM), `left` of them
    // at the most, which is lowered by as many. `string_section` is where elf_strptr() finds the name.
    template <class Visit>
    void for_each_symbol(GElf_Word type, std::size_t& left, Visit visit) const {
        for (const Section& section : sections()) {
            if (section.header.sh_type != type || section.header.sh_entsize == 0) continue;
            Elf_Data* data = elf_getdata(section.handle, nullptr);
            const std::size_t count = data == nullptr ? 0 : std::min(data->d_size / section.header.sh_entsize, left);
            left -= count;
            for (std::size_t i = 0; i < count; ++i) {
                GElf_Sym symbol;
                if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
                visit(symbol, section.header.sh_link);
            }
        }
    }
    // What the section holds, unpacked where it is compressed; empty for one without bytes.
    [[nodiscard]] static std::span<const std::byte> bytes_of(const Section& section);
    [[nodiscard]] std::vector<std::byte> build_id() const;  // empty when absent

private:
    struct EndElf {
        void operator()(Elf* elf) const { elf_end(elf); }
    };
    ElfImage() = default;
    bool is_usable() const;

    UniqueFd file_;            // read by elf_, so it goes after it
    std::vector<char> bytes_;  // the same
    std::unique_ptr<Elf, EndElf> elf_;
};

}  // namespace pyprof
