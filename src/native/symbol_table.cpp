// SPDX-License-Identifier: Apache-2.0
#include "native/symbol_table.h"

#include "native/unpack.h"

#include <algorithm>
#include <tuple>

namespace pyprof {
namespace {

constexpr std::size_t kMostSymbols = std::size_t{4} << 20;
constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kMostNameBytes = std::size_t{1} << 30;
// Symbols that begin below an address and end above it, nested in each other, are few.
constexpr int kMostNested = 16;

bool is_function(const GElf_Sym& symbol) {
    const unsigned type = GELF_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
    // Hand-written assembler often leaves the type out.
    return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

std::uint8_t rank_of(const GElf_Sym& symbol) {
    const unsigned binding = GELF_ST_BIND(symbol.st_info);
    const bool is_typed = GELF_ST_TYPE(symbol.st_info) != STT_NOTYPE;
    return static_cast<std::uint8_t>((is_typed ? 0 : 4) + (binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2));
}

}  // namespace

void SymbolTable::add_entry(std::uint64_t start, std::uint64_t size, std::uint8_t rank, std::string_view name) {
    if (name.empty() || name.size() > kLongestName || entries_.size() >= kMostSymbols) return;
    if (names_.size() + name.size() > kMostNameBytes) return;
    Entry entry;
    entry.start = start;
    entry.end = size > ~start ? start : start + size;
    entry.name = static_cast<std::uint32_t>(names_.size());
    entry.name_size = static_cast<std::uint16_t>(name.size());
    entry.rank = rank;
    names_.insert(names_.end(), name.begin(), name.end());
    entries_.push_back(entry);
}

void SymbolTable::add(FileAddress start, std::uint64_t size, std::string_view name) {
    add_entry(raw(start), size, 8, name);
}

std::size_t SymbolTable::add_table(const ElfImage& image, GElf_Word type) {
    const std::size_t before = entries_.size();
    std::size_t left = kMostSymbols;
    image.for_each_symbol(type, left, [&](const GElf_Sym& symbol, std::size_t string_section) {
        if (!is_function(symbol)) return;
        const char* name = elf_strptr(image.get(), string_section, symbol.st_name);
        if (name != nullptr) add_entry(symbol.st_value, symbol.st_size, rank_of(symbol), name);
    });
    return entries_.size() - before;
}

void SymbolTable::add_packed(const ElfImage& image) {
    const auto section = image.find_section(".gnu_debugdata");
    if (!section) return;
    if (const auto inner = ElfImage::open(unpack_xz(ElfImage::bytes_of(*section)))) add_table(*inner, SHT_SYMTAB);
}

void SymbolTable::add(const ElfImage& image) {
    if (add_table(image, SHT_SYMTAB) == 0) add_packed(image);
    add_table(image, SHT_DYNSYM);
}

void SymbolTable::finish() {
    std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
        return std::tuple(a.start, ~a.end, a.rank, name_of(a)) < std::tuple(b.start, ~b.end, b.rank, name_of(b));
    });
    const auto last = std::unique(entries_.begin(), entries_.end(),
                                  [](const Entry& a, const Entry& b) { return a.start == b.start && a.end == b.end; });
    entries_.erase(last, entries_.end());
}

std::optional<SymbolTable::Function> SymbolTable::find(FileAddress address) const {
    const auto above = std::upper_bound(entries_.begin(), entries_.end(), raw(address),
                                        [](std::uint64_t value, const Entry& entry) { return value < entry.start; });
    auto entry = above;
    for (int i = 0; i < kMostNested && entry != entries_.begin(); ++i) {
        --entry;
        if (raw(address) < entry->end) return Function{FileAddress{entry->start}, name_of(*entry), true};
    }
    if (above == entries_.begin()) return std::nullopt;
    entry = above - 1;
    if (entry->end != entry->start) return std::nullopt;
    return Function{FileAddress{entry->start}, name_of(*entry), false};
}

std::optional<std::string_view> SymbolTable::find_name(const std::function<bool(std::string_view)>& fits) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return fits(name_of(entry)); });
    return found == entries_.end() ? std::nullopt : std::optional(name_of(*found));
}

}  // namespace pyprof
