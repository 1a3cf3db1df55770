// SPDX-License-Identifier: Apache-2.0
//
// Attributes of instances of Python classes. Up to 3.10 they are in a dict at tp_dictoffset; from 3.11 on
// in an array of values whose keys the type shares, until something asks for __dict__
// (CPython InternalDocs/object_layout.md).
#include "python/objects.h"
#include "python/objects_dict.h"

#include <array>

namespace pyprof {

namespace {

constexpr std::uint64_t kInlineValuesFlag = 1U << 2U;  // Py_TPFLAGS_INLINE_VALUES
constexpr std::uint64_t kManagedDictFlag = 1U << 4U;   // Py_TPFLAGS_MANAGED_DICT
constexpr std::size_t kMaxSharedKeys = 256;            // SHARED_KEYS_MAX_SIZE is 30
constexpr std::uint64_t kMaxBasicSize = 1U << 20U;

struct TypeFacts {
    Address type{};
    std::uint64_t flags = 0;
    std::uint64_t basic_size = 0;
    std::int64_t dict_offset = 0;
};

std::optional<TypeFacts> read_type_facts(Memory& memory, const Layout& layout, Address object) {
    const auto type = read_type(memory, layout, object);
    if (!type) return std::nullopt;
    std::array<std::uint64_t, 3> fields{};
    const auto field = [&](std::size_t i, Offset offset) {
        return ReadRange{*type + at(offset), std::as_writable_bytes(std::span(fields).subspan(i, 1))};
    };
    const std::array ranges{field(0, layout.type.basic_size), field(1, layout.type.flags),
                            field(2, layout.type.dict_offset)};
    if (memory.read(ranges).complete != ranges.size()) return std::nullopt;
    return TypeFacts{*type, fields[1], fields[0], static_cast<std::int64_t>(fields[2])};
}

// `values` points to the first value; `capacity` bounds the array where the version tells it.
std::optional<Address> find_in_values(Memory& memory, const Layout& layout, const TypeFacts& facts,
                                      Address values, std::size_t capacity, std::string_view name) {
    const auto keys = read_pointer(memory, facts.type + at(layout.type.cached_keys));
    if (!keys) return std::nullopt;
    const auto table = read_keys_table(memory, layout, *keys, kMaxSharedKeys);
    if (!table) return std::nullopt;
    const auto place = find_key(memory, layout, *table, name);
    if (!place || *place >= capacity) return kNullAddress;
    return read_pointer(memory, values + *place * 8);
}

std::optional<Address> find_in_inline_values(Memory& memory, const Layout& layout, const TypeFacts& facts,
                                             Address object, std::string_view name) {
    if ((facts.flags & kInlineValuesFlag) == 0) return kNullAddress;
    if (facts.basic_size > kMaxBasicSize) return std::nullopt;
    const Address start = object + facts.basic_size;
    // capacity, size, embedded, valid
    const auto header = read_value<std::array<std::uint8_t, 4>>(memory, start);
    if (!header) return std::nullopt;
    if ((*header)[3] == 0) return kNullAddress;
    return find_in_values(memory, layout, facts, start + at(layout.dict.values_data), (*header)[0], name);
}

std::optional<Address> find_in_managed(Memory& memory, const Layout& layout, const TypeFacts& facts,
                                       Address object, std::string_view name) {
    const Address place = object - at(layout.managed_dict_back);
    const auto word = read_pointer(memory, place);
    if (!word) return std::nullopt;
    switch (layout.instance_values) {
        case InstanceValues::kPointerBefore: {
            if (*word != kNullAddress) return find_in_dict(memory, layout, *word, name);
            const auto values = read_pointer(memory, place - 8);
            if (!values) return std::nullopt;
            if (*values == kNullAddress) return kNullAddress;
            return find_in_values(memory, layout, facts, *values, kMaxSharedKeys, name);
        }
        case InstanceValues::kTaggedPointer:
            if ((raw(*word) & 1U) != 0)
                return find_in_values(memory, layout, facts, *word + 1, kMaxSharedKeys, name);
            break;
        case InstanceValues::kInline:
            if (*word == kNullAddress) return find_in_inline_values(memory, layout, facts, object, name);
            break;
        case InstanceValues::kNone:
            return std::nullopt;
    }
    if (*word == kNullAddress) return kNullAddress;
    return find_in_dict(memory, layout, *word, name);
}

}  // namespace

std::optional<Address> read_attribute(Memory& memory, const Layout& layout, Address object,
                                      std::string_view name) {
    const auto facts = read_type_facts(memory, layout, object);
    if (!facts) return std::nullopt;
    if (has(layout.managed_dict_back) && (facts->flags & kManagedDictFlag) != 0) {
        return find_in_managed(memory, layout, *facts, object, name);
    }
    if (facts->dict_offset == 0) return kNullAddress;
    // Negative offsets count from the end of objects of variable size, which nothing here looks into.
    if (facts->dict_offset < 0 || static_cast<std::uint64_t>(facts->dict_offset) > kMaxBasicSize)
        return std::nullopt;
    const auto dict = read_pointer(memory, object + static_cast<std::uint64_t>(facts->dict_offset));
    if (!dict) return std::nullopt;
    if (*dict == kNullAddress) return kNullAddress;
    return find_in_dict(memory, layout, *dict, name);
}

}  // namespace pyprof
