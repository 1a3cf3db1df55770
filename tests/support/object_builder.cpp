// SPDX-License-Identifier: Apache-2.0
//
// Encodings after CPython's Include/cpython/unicodeobject.h, longintrepr.h, Objects/dict-common.h (up to
// 3.10) and Include/internal/pycore_dict.h (from 3.11 on).
#include "support/object_builder.h"

#include <algorithm>

namespace pyprof::test {

namespace {

constexpr std::uint64_t kInlineValuesFlag = 1U << 2U;
constexpr std::uint64_t kManagedDictFlag = 1U << 4U;
constexpr std::uint64_t kHeapTypeFlag = 1U << 9U;
constexpr std::size_t kBeforeObject = 64;

std::size_t plus(Offset offset, std::size_t bytes) {
    return static_cast<std::size_t>(offset) + bytes;
}

std::u32string widen(std::string_view ascii) {
    return std::u32string(ascii.begin(), ascii.end());
}

}  // namespace

ObjectBuilder::ObjectBuilder(FakeMemory& memory, const Layout& layout, Address start)
    : memory_(memory), layout_(layout), next_(start) {
    none_ = object(16);
}

Address ObjectBuilder::allocate(std::size_t size) {
    const Address start = next_;
    const std::size_t whole = (kBeforeObject + size + 15) / 16 * 16;
    memory_.map(start, whole);
    next_ = start + whole;
    return start + kBeforeObject;
}

Address ObjectBuilder::object(std::size_t size, Address type) {
    const Address address = allocate(std::max<std::size_t>(size, layout_.object.header_size));
    if (layout_.object.type == 8) {
        put_field(address, 0, 1);  // ob_refcnt
    } else {
        put_field(address, 12, 1, 4);  // ob_ref_local of free-threaded builds
    }
    put_field(address, layout_.object.type, raw(type));
    return address;
}

void ObjectBuilder::put_field(Address base, Offset field, std::uint64_t value, std::size_t bytes) {
    if (!has(field)) return;
    memory_.write(base + static_cast<std::uint64_t>(field), std::as_bytes(std::span(&value, 1)).first(bytes));
}

Address ObjectBuilder::str(std::u32string_view characters) {
    const Layout::Unicode& unicode = layout_.unicode;
    const char32_t highest =
        characters.empty() ? U'\0' : *std::max_element(characters.begin(), characters.end());
    const bool is_ascii = highest < 0x80;
    const std::size_t kind = highest < 0x100 ? 1 : highest < 0x10000 ? 2 : 4;
    const std::size_t data = static_cast<std::size_t>(is_ascii ? unicode.ascii_data : unicode.compact_data);
    const Address address = object(data + (characters.size() + 1) * kind);
    put_field(address, unicode.length, characters.size());
    const std::uint64_t state = kind | 1U << 3U | (is_ascii ? 1U << 4U : 0U);  // kind:3, compact:1, ascii:1
    put_field(address, unicode.state, state << (unicode.wide_interned ? 8U : 2U), 4);
    for (std::size_t i = 0; i < characters.size(); ++i) {
        put_field(address + data + i * kind, 0, characters[i], kind);
    }
    return address;
}

Address ObjectBuilder::str(std::string_view ascii) {
    return str(widen(ascii));
}

Address ObjectBuilder::bytes(std::span<const std::byte> content) {
    const Address address = object(plus(layout_.bytes.data, content.size() + 1));
    put_field(address, layout_.bytes.size, content.size());
    memory_.write(address + static_cast<std::uint64_t>(layout_.bytes.data), content);
    return address;
}

Address ObjectBuilder::tuple(std::span<const Address> items) {
    const Address address = object(plus(layout_.tuple.items, items.size() * 8));
    put_field(address, layout_.tuple.size, items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
        put_field(address + i * 8, layout_.tuple.items, raw(items[i]));
    return address;
}

Address ObjectBuilder::integer(std::int64_t value) {
    const Address address = object(plus(layout_.integer.digits, 16));
    const auto bits = static_cast<std::uint64_t>(value);
    put_integer(address, value < 0 ? ~bits + 1 : bits, value < 0);
    return address;
}

Address ObjectBuilder::big_integer(std::uint64_t value) {
    const Address address = object(plus(layout_.integer.digits, 16));
    put_integer(address, value, false);
    return address;
}

void ObjectBuilder::put_integer(Address object, std::uint64_t magnitude, bool negative) {
    std::uint64_t digits = 0;
    for (std::uint64_t rest = magnitude; rest != 0; rest >>= 30U, ++digits) {
        put_field(object + digits * 4, layout_.integer.digits, rest & 0x3fffffffU, 4);
    }
    const std::uint64_t tag = digits << 3U | (magnitude == 0 ? 1U : negative ? 2U : 0U);
    const std::uint64_t size = negative ? ~digits + 1 : digits;
    put_field(object, layout_.integer.tag, layout_.integer.tagged ? tag : size);
}

Address ObjectBuilder::type(std::string_view name, const TypeSpec& spec) {
    const Address text = allocate(name.size() + 1);
    memory_.write(text, std::as_bytes(std::span(name.data(), name.size())));
    const Address address = object(1024);
    put_field(address, layout_.type.name, raw(text));
    put_field(address, layout_.type.basic_size,
              spec.basic_size != 0 ? spec.basic_size : layout_.object.header_size);
    put_field(address, layout_.type.dict_offset, static_cast<std::uint64_t>(spec.dict_offset));
    put_field(address, layout_.type.flags, spec.flags);
    put_field(address, layout_.type.base, raw(spec.base));
    put_field(address, layout_.type.cached_keys, raw(spec.cached_keys));
    return address;
}

// A table with a real index: `entries` dense, then their numbers at the places that a hash of their
// order gives (a reader that scans the entries needs no more).
Address ObjectBuilder::keys_table(const Entries& entries, Table table) {
    unsigned log2_size = 3;
    while ((std::size_t{1} << log2_size) * 2 / 3 < entries.size()) ++log2_size;
    const std::size_t slots = std::size_t{1} << log2_size;
    const std::size_t index_width = slots <= 0xff ? 1 : slots <= 0xffff ? 2 : 4;
    const std::size_t index_bytes = slots * index_width;
    const bool typed = layout_.dict.keys_kind == DictKeysKind::kTypedEntries;
    const std::size_t header = typed ? 32 : 40;
    const bool keys_only_str = typed && table != Table::kGeneral;
    const std::size_t entry_size = keys_only_str ? 16 : 24;
    const Address keys = allocate(header + index_bytes + entry_size * (slots * 2 / 3));
    if (typed) {
        unsigned log2_index_bytes = log2_size;
        while ((std::size_t{1} << log2_index_bytes) < index_bytes) ++log2_index_bytes;
        put_field(keys, 8, log2_size, 1);
        put_field(keys, 9, log2_index_bytes, 1);
        put_field(keys, 10, static_cast<std::uint64_t>(table), 1);
        put_field(keys, 16, slots * 2 / 3 - entries.size());
        put_field(keys, 24, entries.size());
    } else {
        put_field(keys, 8, slots);
        put_field(keys, 24, slots * 2 / 3 - entries.size());
        put_field(keys, 32, entries.size());
    }
    const Address indices = keys + header;
    for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::uint64_t index = slot < entries.size() ? slot : ~std::uint64_t{0};
        put_field(indices + slot * index_width, 0, index, index_width);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Address entry = indices + index_bytes + i * entry_size;
        const std::uint64_t value = table == Table::kSplit ? 0 : raw(entries[i].second);
        put_field(entry, keys_only_str ? 0 : 8, raw(entries[i].first));
        put_field(entry, keys_only_str ? 8 : 16, value);
    }
    return keys;
}

std::size_t ObjectBuilder::values_size(std::size_t capacity) const {
    return static_cast<std::size_t>(layout_.dict.values_data) + capacity * 8;
}

void ObjectBuilder::put_values(Address values, const Entries& entries) {
    const auto data = static_cast<std::uint64_t>(layout_.dict.values_data);
    if (data != 0) {
        put_field(values, 0, entries.size(), 1);  // capacity
        put_field(values, 1, entries.size(), 1);  // size
        put_field(values, 3, 1, 1);               // valid
    }
    for (std::size_t i = 0; i < entries.size(); ++i)
        put_field(values + data + i * 8, 0, raw(entries[i].second));
}

Address ObjectBuilder::dict(const Entries& entries, Table table) {
    const Address address = object(plus(layout_.dict.values, 8));
    put_field(address, layout_.dict.keys, raw(keys_table(entries, table)));
    if (table == Table::kSplit) {
        const Address values = allocate(values_size(entries.size()));
        put_values(values, entries);
        put_field(address, layout_.dict.values, raw(values));
    }
    return address;
}

Address ObjectBuilder::dict(const std::vector<std::pair<std::string, Address>>& entries) {
    Entries all;
    for (const auto& [name, value] : entries) all.emplace_back(str(name), value);
    return dict(all, Table::kUnicode);
}

Address ObjectBuilder::module(Address dict) {
    const Address address = object(plus(layout_.module.dict, 32));
    put_field(address, layout_.module.dict, raw(dict));
    return address;
}

Address ObjectBuilder::instance(std::string_view class_name,
                                const std::vector<std::pair<std::string, Address>>& attributes,
                                Attributes kept) {
    Entries entries;
    for (const auto& [name, value] : attributes) entries.emplace_back(str(name), value);
    const bool managed = has(layout_.managed_dict_back);
    const bool is_inline = layout_.instance_values == InstanceValues::kInline;
    const std::size_t header = layout_.object.header_size;
    TypeSpec spec;
    spec.basic_size = managed ? header : header + 16;  // up to 3.10: a dict and a weak reference list
    spec.dict_offset = managed ? -1 : static_cast<std::int64_t>(header);
    spec.flags = kHeapTypeFlag | (managed ? kManagedDictFlag : 0) | (is_inline ? kInlineValuesFlag : 0);
    spec.cached_keys = keys_table(entries, Table::kSplit);
    const Address its_type = type(class_name, spec);
    const Address address = object(spec.basic_size + values_size(entries.size()), its_type);
    const Address managed_word = address - static_cast<std::uint64_t>(std::max(layout_.managed_dict_back, 0));

    if (kept == Attributes::kDict || layout_.instance_values == InstanceValues::kNone) {
        const Address its_dict = dict(entries, managed ? Table::kUnicode : Table::kSplit);
        put_field(managed ? managed_word : address + header, 0, raw(its_dict));
    } else if (is_inline) {
        put_values(address + spec.basic_size, entries);
    } else {
        const Address values = allocate(values_size(entries.size()));
        put_values(values, entries);
        const bool before = layout_.instance_values == InstanceValues::kPointerBefore;
        // In one word for both, an odd value says that it is no dict.
        put_field(before ? managed_word - 8 : managed_word, 0, raw(before ? values : values - 1));
    }
    return address;
}

Address ObjectBuilder::code(const CodeSpec& spec) {
    const Layout::Code& code = layout_.code;
    const bool is_inline = has(code.unit_count);
    const std::size_t inline_bytes = is_inline ? spec.bytecode.size() : 0;
    if (code_type_ == kNullAddress) code_type_ = type("code");
    const Address address = object(code.size + inline_bytes, code_type_);
    put_field(address, code.unit_count, spec.bytecode.size() / 2);
    put_field(address, code.filename, raw(str(spec.filename)));
    put_field(address, code.name, raw(str(spec.name)));
    put_field(address, code.qualname, raw(str(spec.qualname.empty() ? spec.name : spec.qualname)));
    put_field(address, code.first_line, static_cast<std::uint64_t>(spec.first_line), 4);
    put_field(address, code.line_table, raw(bytes(spec.line_table)));
    put_field(address, code.version, spec.version, 4);
    const int words = spec.frame_words != 0 ? spec.frame_words : static_cast<int>(layout_.frame.size / 8 + 4);
    put_field(address, code.frame_size, static_cast<std::uint64_t>(words), 4);
    if (is_inline) {
        memory_.write(address + static_cast<std::uint64_t>(code.bytecode), spec.bytecode);
    } else {
        put_field(address, code.bytecode, raw(bytes(spec.bytecode)));
    }
    return address;
}

Address ObjectBuilder::function(Address code, std::uint32_t version) {
    const Address address = object(192);
    put_field(address, layout_.function.code, raw(code));
    put_field(address, layout_.function.version, version, 4);
    return address;
}

}  // namespace pyprof::test
