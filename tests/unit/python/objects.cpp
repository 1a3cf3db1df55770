// SPDX-License-Identifier: Apache-2.0
//
// Readers of bytes, tuples, ints, types, dicts and attributes on every layout; then on objects that lie.
#include "python/objects.h"

#include "support/known_layouts.h"
#include "support/object_builder.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace pyprof;
using namespace pyprof::test;

namespace {

using Table = ObjectBuilder::Table;
using Attributes = ObjectBuilder::Attributes;

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        FakeMemory memory;
        ObjectBuilder builder(memory, known.layout);
        test(builder, memory, known.layout);
    }
}

// Every read of `action` fails once; it must come back each time, and be whole without a fault.
template <class Action>
void with_each_read_failing(FakeMemory& memory, Action action) {
    memory.reset_counts();
    action();
    const std::size_t reads = memory.reads();
    for (std::size_t i = 1; i <= reads; ++i) {
        memory.fail_at(i);
        action();
    }
}

}  // namespace

TEST_CASE("objects: bytes come out whole, up to a limit") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        std::vector<std::byte> content(1000);
        for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i);
        const Address object = builder.bytes(content);
        CHECK(read_bytes_object(memory, layout, object, 1000) == content);
        CHECK_FALSE(read_bytes_object(memory, layout, object, 999));
        CHECK(read_bytes_object(memory, layout, builder.bytes({}), 0)->empty());
        builder.put_field(object, layout.bytes.size, ~std::uint64_t{0});
        CHECK_FALSE(read_bytes_object(memory, layout, object, 1 << 20));
    });
}

TEST_CASE("objects: tuples come out whole, up to a limit") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const std::vector<Address> items = {builder.integer(1), builder.integer(2), builder.str("x")};
        const Address object = builder.tuple(items);
        CHECK(read_tuple(memory, layout, object, 3) == items);
        CHECK_FALSE(read_tuple(memory, layout, object, 2));
        CHECK(read_tuple(memory, layout, builder.tuple({}), 0)->empty());
    });
}

TEST_CASE("objects: ints of up to 64 bits come out, longer ones do not") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        std::vector<Address> objects;
        const std::vector<std::int64_t> values = {0,
                                                  1,
                                                  -1,
                                                  1 << 29,
                                                  (1 << 30) - 1,
                                                  1 << 30,
                                                  -(1 << 30),
                                                  140000000000000,
                                                  std::numeric_limits<std::int64_t>::max(),
                                                  std::numeric_limits<std::int64_t>::min()};
        for (const std::int64_t value : values) {
            objects.push_back(builder.integer(value));
            CHECK(read_long(memory, layout, objects.back()) == static_cast<std::uint64_t>(value));
        }
        CHECK(read_long(memory, layout, builder.big_integer(~std::uint64_t{0})) == ~std::uint64_t{0});
        const auto together = read_longs(memory, layout, objects);
        REQUIRE(together.size() == values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(together[i] == static_cast<std::uint64_t>(values[i]));

        const Address four_digits = builder.integer(5);
        builder.put_field(four_digits, layout.integer.tag, layout.integer.tagged ? 4U << 3U : 4U);
        CHECK_FALSE(read_long(memory, layout, four_digits));
        const Address wide_digit = builder.integer(5);
        builder.put_field(wide_digit, layout.integer.digits, 1U << 30U, 4);
        CHECK_FALSE(read_long(memory, layout, wide_digit));
    });
}

TEST_CASE("objects: of many ints one that can't be read spoils no other") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        std::vector<Address> objects;
        for (int i = 0; i < 600; ++i) objects.push_back(i % 50 == 7 ? Address{8} : builder.integer(i));
        const auto values = read_longs(memory, layout, objects);
        REQUIRE(values.size() == 600);
        for (std::size_t i = 0; i < 600; ++i) {
            if (i % 50 == 7) CHECK_FALSE(values[i]);
            if (i % 50 != 7) CHECK(values[i] == i);
        }
    });
}

TEST_CASE("objects: a type's name ends where its bytes do") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address type = builder.type("collections.OrderedDict");
        CHECK(type_name(memory, layout, type) == "collections.OrderedDict");
        CHECK(read_type(memory, layout, builder.object(16, type)) == type);
        CHECK(type_name(memory, layout, builder.type(std::string(300, 'n'))) == std::string(300, 'n'));
        CHECK_FALSE(type_name(memory, layout, builder.type(std::string(5000, 'n'))));
        CHECK_FALSE(type_name(memory, layout, kNullAddress));
    });
}

TEST_CASE("objects: dicts of every kind of table give their entries") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        for (const Table table : {Table::kGeneral, Table::kUnicode, Table::kSplit}) {
            for (const std::size_t count : {0U, 1U, 5U, 6U, 100U, 300U}) {
                ObjectBuilder::Entries entries;
                for (std::size_t i = 0; i < count; ++i) {
                    entries.emplace_back(builder.str("key" + std::to_string(i)), builder.integer(1));
                }
                const Address dict = builder.dict(entries, table);
                CAPTURE(static_cast<int>(table), count);
                const auto read = read_dict(memory, layout, dict);
                REQUIRE(read);
                REQUIRE(read->size() == count);
                for (std::size_t i = 0; i < count; ++i) {
                    CHECK((*read)[i].key == entries[i].first);
                    CHECK((*read)[i].value == entries[i].second);
                }
                if (count == 0) continue;
                CHECK(find_in_dict(memory, layout, dict, "key" + std::to_string(count - 1)) ==
                      entries.back().second);
                CHECK(find_in_dict(memory, layout, dict, "key") == kNullAddress);
            }
        }
    });
}

TEST_CASE("objects: deleted entries of a dict are passed over") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address value = builder.integer(1);
        const Address dict =
            builder.dict({{builder.str("a"), value}, {kNullAddress, kNullAddress}, {builder.str("c"), value}},
                         Table::kGeneral);
        CHECK(read_dict(memory, layout, dict)->size() == 2);
        CHECK(find_in_dict(memory, layout, dict, "c") == value);
    });
}

TEST_CASE("objects: a look-up passes over keys of other types, lengths and places") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address value = builder.integer(1);
        const Address dict = builder.dict({{builder.integer(5), value},
                                           {Address{0x10}, value},  // can't be read
                                           {builder.str("sough"), value},
                                           {builder.str("soughX"), value},
                                           {builder.str(U"s\u00f6ught"), value},
                                           {builder.str("sought"), builder.none()}},
                                          Table::kGeneral);
        CHECK(find_in_dict(memory, layout, dict, "sought") == builder.none());
    });
}

TEST_CASE("objects: a dict look-up reads many keys with one call") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        ObjectBuilder::Entries entries;
        for (int i = 0; i < 1000; ++i)
            entries.emplace_back(builder.str("module" + std::to_string(i)), builder.none());
        const Address dict = builder.dict(entries, Table::kUnicode);
        memory.reset_counts();
        CHECK(find_in_dict(memory, layout, dict, "module999") == builder.none());
        CHECK(memory.reads() <= 8);
    });
}

TEST_CASE("objects: more entries than allowed give nothing") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        ObjectBuilder::Entries entries(20, {builder.str("k"), builder.none()});
        const Address dict = builder.dict(entries, Table::kUnicode);
        CHECK(read_dict(memory, layout, dict, 20));
        CHECK_FALSE(read_dict(memory, layout, dict, 19));
    });
}

TEST_CASE("objects: tables whose numbers make no sense give nothing") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const bool typed = layout.dict.keys_kind == DictKeysKind::kTypedEntries;
        const auto table_with = [&](Offset field, std::uint64_t value, std::size_t width) {
            const Address dict = builder.dict({{"a", builder.none()}});
            const auto keys = read_pointer(memory, dict + at(layout.dict.keys));
            REQUIRE(keys);
            builder.put_field(*keys, field, value, width);
            return read_dict(memory, layout, dict);
        };
        CHECK(table_with(0, 77, 8));  // a reference count
        const Offset count_at = typed ? 24 : 32;
        CHECK_FALSE(table_with(count_at, ~std::uint64_t{0}, 8));
        CHECK_FALSE(table_with(count_at, 9, 8));  // more than slots
        if (typed) {
            CHECK_FALSE(table_with(8, 200, 1));
            CHECK_FALSE(table_with(9, 63, 1));
            CHECK_FALSE(table_with(10, 3, 1));
        } else {
            CHECK_FALSE(table_with(8, std::uint64_t{1} << 60U, 8));
        }
    });
}

TEST_CASE("objects: attributes are found in values and in dicts") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address name = builder.str("MainThread");
        const Address other = builder.integer(3);
        for (const Attributes kept : {Attributes::kValues, Attributes::kDict}) {
            CAPTURE(kept == Attributes::kValues);
            const Address thread = builder.instance("Thread", {{"_target", other}, {"_name", name}}, kept);
            CHECK(read_attribute(memory, layout, thread, "_name") == name);
            CHECK(read_attribute(memory, layout, thread, "_target") == other);
            CHECK(read_attribute(memory, layout, thread, "_nam") == kNullAddress);
        }
    });
}

TEST_CASE("objects: an attribute that was deleted is not there") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address thread =
            builder.instance("Thread", {{"_name", kNullAddress}, {"other", builder.none()}});
        CHECK(read_attribute(memory, layout, thread, "_name") == kNullAddress);
        CHECK(read_attribute(memory, layout, thread, "other") == builder.none());
    });
}

TEST_CASE("objects: an object without a dict has no attributes") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address plain = builder.object(32, builder.type("Slots"));
        CHECK(read_attribute(memory, layout, plain, "_name") == kNullAddress);
    });
}

TEST_CASE("objects: a module leads to its dict") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address dict = builder.dict({{"_active", builder.none()}});
        CHECK(read_module_dict(memory, layout, builder.module(dict)) == dict);
    });
}

TEST_CASE("objects: any read may fail, and nothing worse follows") {
    for_each_layout([](ObjectBuilder& builder, FakeMemory& memory, const Layout& layout) {
        const Address text = builder.str(std::u32string(400, U'x'));
        const Address dict = builder.dict({{"a", builder.none()}, {"b", builder.none()}});
        const Address split = builder.dict({{builder.str("a"), builder.none()}}, Table::kSplit);
        const Address thread = builder.instance("Thread", {{"_name", text}});
        const Address number = builder.integer(1 << 20);
        with_each_read_failing(memory, [&] { (void)read_unicode(memory, layout, text); });
        with_each_read_failing(memory, [&] { (void)read_dict(memory, layout, dict); });
        with_each_read_failing(memory, [&] { (void)find_in_dict(memory, layout, split, "a"); });
        with_each_read_failing(memory, [&] { (void)read_attribute(memory, layout, thread, "_name"); });
        with_each_read_failing(memory, [&] { (void)read_longs(memory, layout, {number, number}); });
        CHECK(read_attribute(memory, layout, thread, "_name") == text);
    });
}
