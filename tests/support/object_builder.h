// SPDX-License-Identifier: Apache-2.0
//
// Writes CPython objects of any Layout into a FakeMemory: what a test says of an object is what the
// readers must find. It knows the encodings from CPython's headers, never from the readers under test.
#pragma once

#include "support/fake_memory.h"

#include <pyprof/layout.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pyprof::test {

class ObjectBuilder {
public:
    ObjectBuilder(FakeMemory& memory, const Layout& layout, Address start = Address{0x7f1000000000});

    [[nodiscard]] FakeMemory& memory() { return memory_; }
    [[nodiscard]] const Layout& layout() const { return layout_; }

    // Zeroed and mapped, with 64 zero bytes before it (the headers that stand before an object).
    Address allocate(std::size_t size);
    // An object with its ob_type.
    Address object(std::size_t size, Address type = kNullAddress);

    // A compact str of the narrowest kind that holds the characters, lone surrogates included.
    Address str(std::u32string_view characters);
    Address str(std::string_view ascii);
    Address bytes(std::span<const std::byte> content);
    Address tuple(std::span<const Address> items);
    Address integer(std::int64_t value);
    Address big_integer(std::uint64_t value);
    [[nodiscard]] Address none() const { return none_; }

    struct TypeSpec {
        std::uint64_t basic_size = 0;  // 0: the object header
        std::int64_t dict_offset = 0;
        std::uint64_t flags = 0;
        Address cached_keys{};
        Address base{};
    };
    Address type(std::string_view name, const TypeSpec& spec);
    Address type(std::string_view name) { return type(name, TypeSpec{}); }

    using Entries = std::vector<std::pair<Address, Address>>;
    enum class Table { kGeneral, kUnicode, kSplit };
    // Null values are deleted entries. kUnicode is kGeneral where the version has no typed tables.
    Address dict(const Entries& entries, Table table);
    // By name, in the form that the version gives a dict of str keys.
    Address dict(const std::vector<std::pair<std::string, Address>>& entries);
    Address module(Address dict);

    enum class Attributes { kValues, kDict };
    // An instance of a Python class with these attributes, as the version keeps them.
    Address instance(std::string_view class_name,
                     const std::vector<std::pair<std::string, Address>>& attributes,
                     Attributes kept = Attributes::kValues);

    struct CodeSpec {
        std::u32string name = U"f";
        std::u32string qualname;  // empty: the name
        std::u32string filename = U"/t/file.py";
        int first_line = 1;
        std::vector<std::byte> line_table;
        std::vector<std::byte> bytecode = std::vector<std::byte>(200);
        std::uint32_t version = 0;
        int frame_words = 0;  // co_framesize; 0: the frame's own header and four words
    };
    Address code(const CodeSpec& spec);
    Address function(Address code, std::uint32_t version = 0);

    // Writes an integer of `bytes` bytes at a field, if the layout has that field.
    void put_field(Address base, Offset field, std::uint64_t value, std::size_t bytes = 8);

private:
    [[nodiscard]] std::size_t values_size(std::size_t capacity) const;
    void put_values(Address values, const Entries& entries);
    Address keys_table(const Entries& entries, Table table);
    void put_integer(Address object, std::uint64_t magnitude, bool negative);

    FakeMemory& memory_;
    Layout layout_;
    Address next_;
    Address none_{};
    Address code_type_{};
};

}  // namespace pyprof::test
