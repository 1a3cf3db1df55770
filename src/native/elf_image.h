// SPDX-License-Identifier: Apache-2.0
//
// An ELF file opened for its symbols and debug information: from a descriptor, which is read and never mapped
// (a mapping of a file that shrinks is a SIGBUS), or from bytes of ours (the vdso, an unpacked table).
#pragma once

#include "base/unique_fd.h"

#include <gelf.h>
#include <libelf.h>

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
