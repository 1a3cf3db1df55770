// SPDX-License-Identifier: Apache-2.0
//
// str objects of every layout, written by ObjectBuilder, and states that no str can have.
#include "python/objects.h"
#include "support/known_layouts.h"
#include "support/object_builder.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// Calls `test(builder)` for each build that is known, with a memory of its own.
template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        FakeMemory memory;
        ObjectBuilder builder(memory, known.layout);
        test(builder);
    }
}

std::optional<std::string> read(ObjectBuilder& builder, Address object,
                                std::size_t most = kMaxStringCharacters) {
    return read_unicode(builder.memory(), builder.layout(), object, most);
}

// A str whose state word is replaced; `state` is as up to 3.13: interned:2, kind:3, compact:1, ascii:1.
Address with_state(ObjectBuilder& builder, std::uint64_t state) {
    const Address object = builder.str("abcdef");
    const Layout::Unicode& unicode = builder.layout().unicode;
    builder.put_field(object, unicode.state, unicode.wide_interned ? state >> 2U << 8U : state, 4);
    return object;
}

constexpr unsigned kKind1 = 1U << 2U;
constexpr unsigned kCompact = 1U << 5U;
constexpr unsigned kAscii = 1U << 6U;

}  // namespace

TEST_CASE("unicode: strings of each kind come out as UTF-8") {
    const std::vector<std::pair<std::u32string, std::string>> texts = {
        {U"", ""},
        {U"name", "name"},
        {U"caf\u00e9", "caf\xc3\xa9"},
        {U"\u03b1\u20ac", "\xce\xb1\xe2\x82\xac"},
        {U"x\U0001f40dy", "x\xf0\x9f\x90\x8dy"},
        {U"\u007f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff",
         "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {std::u32string(U"a\0b", 3), std::string("a\0b", 3)},
    };
    for_each_layout([&](ObjectBuilder& builder) {
        for (const auto& [characters, utf8] : texts) CHECK(read(builder, builder.str(characters)) == utf8);
    });
}

TEST_CASE("unicode: a lone surrogate becomes bytes that are no UTF-8, for others to replace") {
    for_each_layout([](ObjectBuilder& builder) {
        const std::u32string text = {U'a', char32_t{0xd800}, U'b'};
        CHECK(read(builder, builder.str(text)) ==
              "a\xed\xa0\x80"
              "b");
    });
}

TEST_CASE("unicode: a string that is too long is cut between characters and marked") {
    for_each_layout([](ObjectBuilder& builder) {
        CHECK(read(builder, builder.str(std::u32string(50, U'\u20ac')), 2) ==
              "\xe2\x82\xac\xe2\x82\xac\xe2\x80\xa6");
        CHECK(read(builder, builder.str(std::u32string(3, U'x')), 3) == "xxx");
        CHECK(read(builder, builder.str(std::u32string(4, U'x')), 3) == "xxx\xe2\x80\xa6");
        CHECK(read(builder, builder.str(std::u32string(100000, U'x')))->size() == kMaxStringCharacters + 3);
    });
}

TEST_CASE("unicode: a short string takes one read, a long one two") {
    for_each_layout([](ObjectBuilder& builder) {
        const Address text = builder.str("a name of usual length");
        const Address longer = builder.str(std::u32string(1000, U'y'));
        builder.allocate(256);
        builder.memory().reset_counts();
        CHECK(read(builder, text));
        CHECK(builder.memory().reads() == 1);
        CHECK(read(builder, longer));
        CHECK(builder.memory().reads() == 3);
    });
}

TEST_CASE("unicode: a string at the end of what is mapped can be read") {
    for_each_layout([](ObjectBuilder& builder) {
        const Address text = builder.str("last");
        const auto end = text + static_cast<std::uint64_t>(builder.layout().unicode.ascii_data) + 4;
        builder.memory().unmap(end, 4096);
        CHECK(read(builder, text) == "last");
        builder.memory().unmap(end - 1, 1);
        CHECK_FALSE(read(builder, text));
    });
}

TEST_CASE("unicode: bits that other versions use for other things do no harm") {
    for_each_layout([](ObjectBuilder& builder) {
        CHECK(read(builder, with_state(builder, kKind1 | kCompact | kAscii | 0x00530000U | 2U)) == "abcdef");
    });
}

TEST_CASE("unicode: a state that no str has gives nothing") {
    for_each_layout([](ObjectBuilder& builder) {
        CHECK_FALSE(read(builder, with_state(builder, 0)));
        CHECK_FALSE(read(builder, with_state(builder, kKind1)));                        // not compact
        CHECK_FALSE(read(builder, with_state(builder, 3U << 2U | kCompact)));           // no such kind
        CHECK_FALSE(read(builder, with_state(builder, 2U << 2U | kCompact | kAscii)));  // wide and ASCII
    });
}

TEST_CASE("unicode: characters that the kind can't hold give nothing") {
    for_each_layout([](ObjectBuilder& builder) {
        const Layout::Unicode& unicode = builder.layout().unicode;
        const Address ascii = builder.str("abc");
        builder.put_field(ascii, unicode.ascii_data, 0x80, 1);
        CHECK_FALSE(read(builder, ascii));
        const Address wide = builder.str(U"\U0001f40d");
        builder.put_field(wide, unicode.compact_data, 0x110000, 4);
        CHECK_FALSE(read(builder, wide));
    });
}

TEST_CASE("unicode: a length that no str has gives nothing, and allocates nothing like it") {
    for_each_layout([](ObjectBuilder& builder) {
        const Address text = builder.str("abc");
        for (const std::uint64_t length :
             {~std::uint64_t{0}, std::uint64_t{1} << 63U, std::uint64_t{1} << 60U}) {
            builder.put_field(text, builder.layout().unicode.length, length);
            CHECK_FALSE(read(builder, text));
            CHECK_FALSE(read(builder, text, 3));
        }
    });
}

TEST_CASE("unicode: what can't be read gives nothing") {
    for_each_layout([](ObjectBuilder& builder) {
        CHECK_FALSE(read(builder, kNullAddress));
        CHECK_FALSE(read(builder, Address{~std::uint64_t{0} - 8}));
        const Address text = builder.str("abc");
        builder.memory().end_process();
        CHECK_FALSE(read(builder, text));
    });
}
