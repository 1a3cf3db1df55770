// SPDX-License-Identifier: Apache-2.0
//
// Dict tables. Up to 3.10 (Objects/dict-common.h): refcount, size, lookup function, usable, entry count,
// then the index. From 3.11 on (pycore_dict.h): refcount, two logarithms and a kind in bytes, a version,
// usable, entry count, then the index. The entries follow the index.
#include "python/objects_dict.h"

#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kHeaderBytes = 40;  // of the longer form
constexpr std::size_t kKeysPerRead = 256;

// Where the entries stand and what one looks like.
struct Shape {
    std::uint64_t slots = 0;
    std::uint64_t entry_count = 0;
    std::uint64_t entries_at = 0;  // from the start of the table
    std::size_t entry_size = 24;   // {hash, key, value}, or {key, value}
};

// Header fields of PyDictKeysObject up to 3.10.
std::optional<Shape> parse_untyped(const std::byte* header) {
    Shape shape;
    shape.slots = load<std::uint64_t>(header, 8);
    shape.entry_count = load<std::uint64_t>(header, 32);
    if (shape.slots > std::uint64_t{1} << 40U) return std::nullopt;
    const std::uint64_t width = shape.slots <= 0xff         ? 1
                                : shape.slots <= 0xffff     ? 2
                                : shape.slots <= 0xffffffff ? 4
                                                            : 8;
    shape.entries_at = 40 + shape.slots * width;
    return shape;
}

std::optional<Shape> parse_typed(const std::byte* header) {
    constexpr unsigned kGeneral = 0;
    constexpr unsigned kLastKind = 2;
    Shape shape;
    const auto log2_slots = load<std::uint8_t>(header, 8);
    const auto log2_index_bytes = load<std::uint8_t>(header, 9);
    const auto kind = load<std::uint8_t>(header, 10);
    shape.entry_count = load<std::uint64_t>(header, 24);
    const bool is_sound = log2_slots <= 40 && log2_index_bytes <= log2_slots + 3U && kind <= kLastKind;
    if (!is_sound) return std::nullopt;
    shape.slots = std::uint64_t{1} << log2_slots;
    shape.entries_at = 32 + (std::uint64_t{1} << log2_index_bytes);
    shape.entry_size = kind == kGeneral ? 24 : 16;
    return shape;
}

}  // namespace

std::optional<KeysTable> read_keys_table(Memory& memory, const Layout& layout, Address keys,
                                         std::size_t max_entries) {
    std::array<std::byte, kHeaderBytes> header;
    if (!read_bytes(memory, keys, header)) return std::nullopt;
    const bool typed = layout.dict.keys_kind == DictKeysKind::kTypedEntries;
    const auto shape = typed ? parse_typed(header.data()) : parse_untyped(header.data());
    if (!shape || shape->entry_count > shape->slots || shape->entry_count > max_entries) return std::nullopt;

    std::vector<std::byte> bytes(shape->entry_count * shape->entry_size);
    if (!read_bytes(memory, keys + shape->entries_at, bytes)) return std::nullopt;
    const std::size_t key_at = shape->entry_size - 16;
    KeysTable table;
    table.entries.resize(shape->entry_count);
    for (std::size_t i = 0; i < table.entries.size(); ++i) {
        const std::size_t entry = i * shape->entry_size + key_at;
        table.entries[i] = {Address{load<std::uint64_t>(bytes.data(), entry)},
                            Address{load<std::uint64_t>(bytes.data(), entry + 8)}};
    }
    return table;
}

namespace {

// The first range whose bytes are the ones sought. A range that can't be read is passed over.
template <class IsSought>
std::optional<std::size_t> find_range(Memory& memory, std::span<const ReadRange> ranges, IsSought is_sought) {
    std::size_t done = 0;
    while (done < ranges.size()) {
        const ReadOutcome outcome = memory.read(ranges.subspan(done));
        for (const std::size_t end = done + outcome.complete; done < end; ++done) {
            if (is_sought(ranges[done].to)) return done;
        }
        if (outcome.fault != ReadFault::kUnmapped) break;
        ++done;
    }
    return std::nullopt;
}

}  // namespace

// The keys are read many at a time: from the length to as many characters as the name has. A key for
// which that can't be read is shorter than the name and thus another.
std::optional<std::size_t> find_key(Memory& memory, const Layout& layout, const KeysTable& table,
                                    std::string_view name) {
    const auto begin = at(layout.unicode.length);
    const std::size_t characters_at = at(layout.unicode.ascii_data) - begin;
    const std::size_t size = characters_at + name.size();
    const auto is_name = [&](std::span<const std::byte> copy) {
        return load<std::uint64_t>(copy.data(), 0) == name.size() &&
               std::memcmp(copy.data() + characters_at, name.data(), name.size()) == 0;
    };
    std::vector<std::byte> copies(std::min(table.entries.size(), kKeysPerRead) * size);
    std::vector<ReadRange> ranges;
    std::vector<std::size_t> places;
    for (std::size_t next = 0; next < table.entries.size();) {
        ranges.clear();
        places.clear();
        for (; next < table.entries.size() && ranges.size() < kKeysPerRead; ++next) {
            if (table.entries[next].key == kNullAddress) continue;
            ranges.push_back(
                {table.entries[next].key + begin, std::span(copies).subspan(ranges.size() * size, size)});
            places.push_back(next);
        }
        if (const auto hit = find_range(memory, ranges, is_name)) return places[*hit];
    }
    return std::nullopt;
}

namespace {

struct DictFields {
    Address keys{};
    Address values{};
};

std::optional<DictFields> read_dict_fields(Memory& memory, const Layout& layout, Address dict) {
    std::array<std::uint64_t, 2> fields{};
    const auto field = [&](std::size_t i, Offset offset) {
        return ReadRange{dict + at(offset), std::as_writable_bytes(std::span(fields).subspan(i, 1))};
    };
    const std::array ranges{field(0, layout.dict.keys), field(1, layout.dict.values)};
    if (memory.read(ranges).complete != ranges.size()) return std::nullopt;
    return DictFields{Address{fields[0]}, Address{fields[1]}};
}

}  // namespace

std::optional<std::vector<DictEntry>> read_dict(Memory& memory, const Layout& layout, Address dict,
                                                std::size_t max_entries) {
    const auto fields = read_dict_fields(memory, layout, dict);
    if (!fields) return std::nullopt;
    const auto table = read_keys_table(memory, layout, fields->keys, max_entries);
    if (!table) return std::nullopt;
    std::vector<Address> values(table->entries.size());
    if (fields->values == kNullAddress) {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = table->entries[i].value;
    } else if (!read_bytes(memory, fields->values + at(layout.dict.values_data),
                           std::as_writable_bytes(std::span(values)))) {
        return std::nullopt;
    }
    std::vector<DictEntry> entries;
    entries.reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const Address key = table->entries[i].key;
        if (key != kNullAddress && values[i] != kNullAddress) entries.push_back({key, values[i]});
    }
    return entries;
}

std::optional<Address> find_in_dict(Memory& memory, const Layout& layout, Address dict,
                                    std::string_view key) {
    const auto fields = read_dict_fields(memory, layout, dict);
    if (!fields) return std::nullopt;
    const auto table = read_keys_table(memory, layout, fields->keys, kMaxDictEntries);
    if (!table) return std::nullopt;
    const auto place = find_key(memory, layout, *table, key);
    if (!place) return kNullAddress;
    if (fields->values == kNullAddress) return table->entries[*place].value;
    return read_pointer(memory, fields->values + at(layout.dict.values_data) + *place * 8);
}

}  // namespace pyprof
