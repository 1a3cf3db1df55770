// SPDX-License-Identifier: Apache-2.0
//
// The functions of one ELF file by address. A name is given only to an address that lies within its symbol:
// in stripped files the nearest symbol below is a wrong neighbour (an 84 KB cold part of the interpreter's loop
// is no part of whatever happens to be exported before it).
#pragma once

#include "native/elf_image.h"

#include <pyprof/address.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace pyprof {

class SymbolTable {
public:
    // Adds the functions of .symtab, else of .gnu_debugdata, and those of .dynsym.
    void add(const ElfImage& image);
    // A function that no table names, such as a PLT entry.
    void add(FileAddress start, std::uint64_t size, std::string_view name);
    // Sorts what was added; find() wants it.
    void finish();

    struct Function {
        FileAddress start{};
        std::string_view name;  // as the file has it; valid while the table lives
        bool has_size = true;   // false: nothing but the next symbol tells where it ends
    };
    [[nodiscard]] std::optional<Function> find(FileAddress address) const;
    // Any name that `fits`; looks at all of them.
    [[nodiscard]] std::optional<std::string_view> find_name(const std::function<bool(std::string_view)>& fits) const;

private:
    struct Entry {
        std::uint64_t start = 0;
        std::uint64_t end = 0;   // == start: the file does not say how long it is
        std::uint32_t name = 0;  // where it begins in names_
        std::uint16_t name_size = 0;
        std::uint8_t rank = 0;  // of several for one address the lowest counts
    };
    std::size_t add_table(const ElfImage& image, GElf_Word type);
    void add_packed(const ElfImage& image);
    void add_entry(std::uint64_t start, std::uint64_t size, std::uint8_t rank, std::string_view name);
    [[nodiscard]] std::string_view name_of(const Entry& entry) const {
        return std::string_view(names_.data(), names_.size()).substr(entry.name, entry.name_size);
    }

    std::vector<Entry> entries_;
    std::vector<char> names_;
};

}  // namespace pyprof
