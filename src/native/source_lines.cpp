// SPDX-License-Identifier: Apache-2.0
#include "native/source_lines.h"

#include "native/demangle.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::uint32_t kDeepest = 128;
constexpr std::size_t kMostDies = std::size_t{64} << 20;  // of one file, over all units that are looked at
constexpr std::size_t kMostRanges = std::size_t{4} << 20;
constexpr std::size_t kMostInlined = 64;
constexpr std::size_t kLongestName = 4096;

// Calls `take(begin, end)` for each range of code of `die`.
template <class Take>
void for_each_range(Dwarf_Die& die, Take&& take) {
    Dwarf_Addr base = 0;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    std::ptrdiff_t at = 0;
    for (std::size_t i = 0; i < kMostRanges && (at = dwarf_ranges(&die, at, &base, &begin, &end)) > 0; ++i) {
        if (begin < end) take(begin, end);
    }
}

// The line of a call, as an inlined function's entry tells it.
void read_call_site(Dwarf_Die& inlined, Dwarf_Die& unit, SourceLevel& caller) {
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0;
    Dwarf_Word line = 0;
    caller.file.clear();
    caller.line = 0;
    if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &line) != 0 || line > INT32_MAX) return;
    caller.line = static_cast<std::int32_t>(line);
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) != 0) return;
    if (dwarf_getsrcfiles(&unit, &files, &count) != 0 || file >= count) return;
    const char* name = dwarf_filesrc(files, file, nullptr, nullptr);
    if (name != nullptr) caller.file = name;
}

}  // namespace

SourceLines::SourceLines(const ElfImage& image) : dwarf_(dwarf_begin_elf(image.get(), DWARF_C_READ, nullptr)) {}

void SourceLines::list_units() {
    has_unit_ranges_ = true;
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    std::uint8_t type = 0;
    while (dwarf_get_units(dwarf_.get(), unit, &unit, nullptr, &type, &die, nullptr) == 0) {
        if (type != DW_UT_compile || unit_ranges_.size() >= kMostRanges) continue;
        for_each_range(die, [&](Dwarf_Addr begin, Dwarf_Addr end) {
            unit_ranges_.push_back({begin, end, 0, dwarf_dieoffset(&die)});
        });
    }
    std::sort(unit_ranges_.begin(), unit_ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

// Clang writes no .debug_aranges: then the units' own ranges tell.
bool SourceLines::find_unit(Dwarf_Addr address, Dwarf_Die& unit) {
    if (dwarf_addrdie(dwarf_.get(), address, &unit) != nullptr) return true;
    if (!has_unit_ranges_) list_units();
    auto above = std::upper_bound(unit_ranges_.begin(), unit_ranges_.end(), address,
                                  [](Dwarf_Addr value, const Range& range) { return value < range.begin; });
    if (above == unit_ranges_.begin()) return false;
    --above;
    return address < above->end && dwarf_offdie(dwarf_.get(), above->die, &unit) != nullptr;
}

void SourceLines::collect(Dwarf_Die parent, std::uint32_t depth, Unit& unit) {
    Dwarf_Die die;
    if (depth > kDeepest || dwarf_child(&parent, &die) != 0) return;
    do {
        if (++dies_ > kMostDies || unit.functions.size() >= kMostRanges) return;
        const int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
            for_each_range(die, [&](Dwarf_Addr begin, Dwarf_Addr end) {
                unit.functions.push_back({begin, end, depth, dwarf_dieoffset(&die)});
            });
        }
        if (dwarf_haschildren(&die) == 1) collect(die, depth + 1, unit);
    } while (dwarf_siblingof(&die, &die) == 0);
}

SourceLines::Unit& SourceLines::index_of(Dwarf_Die& unit) {
    const auto [entry, is_new] = units_.try_emplace(dwarf_dieoffset(&unit));
    Unit& index = entry.value();
    if (is_new) collect(unit, 0, index);
    return index;
}

std::string SourceLines::name_of(Dwarf_Die& function) {
    Dwarf_Attribute attribute;
    for (const unsigned key : {static_cast<unsigned>(DW_AT_linkage_name), static_cast<unsigned>(DW_AT_MIPS_linkage_name)}) {
        const char* linked = dwarf_formstring(dwarf_attr_integrate(&function, key, &attribute));
        if (linked != nullptr) return demangle(linked);
    }
    const char* name = dwarf_diename(&function);
    return name == nullptr ? std::string() : std::string(name, ::strnlen(name, kLongestName));
}

std::vector<SourceLevel> SourceLines::find(FileAddress address) {
    std::vector<SourceLevel> levels;
    Dwarf_Die unit;
    if (dwarf_ == nullptr || !find_unit(raw(address), unit)) return levels;
    SourceLevel here;
    if (Dwarf_Line* line = dwarf_getsrc_die(&unit, raw(address)); line != nullptr) {
        const char* file = dwarf_linesrc(line, nullptr, nullptr);
        if (file != nullptr) here.file = file;
        int number = 0;
        if (dwarf_lineno(line, &number) == 0 && number > 0) here.line = number;
    }
    std::vector<Range> around;
    for (const Range& range : index_of(unit).functions) {
        if (raw(address) >= range.begin && raw(address) < range.end) around.push_back(range);
    }
    std::sort(around.begin(), around.end(), [](const Range& a, const Range& b) { return a.depth > b.depth; });
    for (const Range& range : around) {
        Dwarf_Die function;
        if (levels.size() >= kMostInlined || dwarf_offdie(dwarf_.get(), range.die, &function) == nullptr) break;
        here.name = name_of(function);
        levels.push_back(here);
        if (dwarf_tag(&function) != DW_TAG_inlined_subroutine) return levels;
        read_call_site(function, unit, here);
    }
    here.name.clear();  // the function itself, which only the symbol names
    levels.push_back(here);
    return levels;
}

}  // namespace pyprof
