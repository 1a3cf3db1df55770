// SPDX-License-Identifier: Apache-2.0
//
// Source lines and inlined functions of an address, from DWARF. libdw reads it; what it does not keep (which
// functions of a unit cover an address) is kept here, because its own search takes 1.5 ms an address.
#pragma once

#include "native/elf_image.h"

#include <pyprof/address.h>

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tsl/robin_map.h>

namespace pyprof {

struct SourceLevel {
    std::string name;  // of an inlined function, or as the debug information has it; may be empty
    std::string file;
    std::int32_t line = 0;  // 0: not known
};

class SourceLines {
public:
    // `image` must outlive this. Nothing is read before it is asked for.
    explicit SourceLines(const ElfImage& image);

    // Innermost first: inlined functions, then the function itself. Empty when nothing is known.
    [[nodiscard]] std::vector<SourceLevel> find(FileAddress address);

private:
    struct EndDwarf {
        void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
    };
    struct Range {
        Dwarf_Addr begin = 0;
        Dwarf_Addr end = 0;
        std::uint32_t depth = 0;
        Dwarf_Off die = 0;
    };
    struct Unit {
        std::vector<Range> functions;
    };
    bool find_unit(Dwarf_Addr address, Dwarf_Die& unit);
    void list_units();
    Unit& index_of(Dwarf_Die& unit);
    void collect(Dwarf_Die parent, std::uint32_t depth, Unit& unit);
    static std::string name_of(Dwarf_Die& function);

    std::unique_ptr<Dwarf, EndDwarf> dwarf_;
    tsl::robin_map<Dwarf_Off, Unit> units_;
    std::vector<Range> unit_ranges_;  // where .debug_aranges does not tell
    bool has_unit_ranges_ = false;
    std::size_t dies_ = 0;
};

}  // namespace pyprof
