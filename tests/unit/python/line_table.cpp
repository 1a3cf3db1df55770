// SPDX-License-Identifier: Apache-2.0
//
// Line tables written by hand after CPython's descriptions of them; tests/layouts compares real ones.
#include "python/line_table.h"

#include <catch2/catch.hpp>

#include <initializer_list>
#include <limits>

using namespace pyprof;

namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
    std::vector<std::byte> all;
    for (const int value : values) all.push_back(static_cast<std::byte>(value));
    return all;
}

LineTable decode(std::initializer_list<int> values, int first_line, LineTableKind kind, int units = 0) {
    return LineTable::decode(bytes(values), first_line, kind, units);
}

constexpr int kNoLine = LineTable::kNoLine;

}  // namespace

TEST_CASE("line table: an lnotab changes the line where an address is reached") {
    // Objects/lnotab_notes.txt: addresses 0, 6, 50 have lines 1, 2, 7.
    const auto table = decode({6, 1, 44, 5}, 1, LineTableKind::kLnotab, 100);
    CHECK(table.line_at(0) == 1);
    CHECK(table.line_at(5) == 1);
    CHECK(table.line_at(6) == 2);
    CHECK(table.line_at(49) == 2);
    CHECK(table.line_at(50) == 7);
    CHECK(table.line_at(99) == 7);
    CHECK(table.line_at(100) == kNoLine);
}

TEST_CASE("line table: an lnotab splits what one pair can't hold, and goes backwards") {
    // 300 bytes and 201 lines on, then 5 lines back.
    const auto table = decode({255, 0, 45, 127, 0, 74, 10, 251}, 361, LineTableKind::kLnotab, 400);
    CHECK(table.line_at(299) == 361);
    CHECK(table.line_at(300) == 562);
    CHECK(table.line_at(310) == 557);
}

TEST_CASE("line table: a linetable gives lines to ranges, and none to some") {
    // PEP 626: lengths in bytes, -128 has no line, a length of 0 only moves the line.
    const auto table = decode({4, 1, 2, 128, 0, 127, 2, 10, 4, 246}, 10, LineTableKind::kLinetable, 6);
    CHECK(table.line_at(0) == 11);
    CHECK(table.line_at(1) == 11);
    CHECK(table.line_at(2) == kNoLine);
    CHECK(table.line_at(3) == 148);
    CHECK(table.line_at(4) == 138);
    CHECK(table.line_at(5) == 138);
    CHECK(table.line_at(6) == kNoLine);
}

TEST_CASE("line table: each form of a location entry moves the line as described") {
    // InternalDocs/code_objects.md: 1cccclll, then what the code says.
    const auto head = [](int code, int units) { return 0x80 | code << 3 | (units - 1); };
    const auto table = decode({head(0, 1),  0x11,                         // short: same line
                               head(11, 2), 4,        9,                  // one line on, two columns
                               head(12, 1), 4,        9,                  // two lines on
                               head(13, 3), 0x40 | 8, 1,                  // svarint 72: +36
                               head(15, 1),                               // none
                               head(14, 8), 7,        1, 5, 0x40 | 1, 2,  // long: svarint 7 is -3
                               head(10, 1), 0,        0},                 // same line
                              100, LineTableKind::kLocations);
    const std::vector<int> expected = {100, 101, 101, 103, 139, 139, 139, kNoLine, 136,
                                       136, 136, 136, 136, 136, 136, 136, 136};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(table.line_at(static_cast<int>(i)) == expected[i]);
    }
    CHECK(table.line_at(17) == kNoLine);
}

TEST_CASE("line table: a frame that has not begun is on the first line") {
    for (const auto kind : {LineTableKind::kLnotab, LineTableKind::kLinetable, LineTableKind::kLocations}) {
        CHECK(decode({}, 42, kind, 10).line_at(-1) == 42);
        CHECK(decode({}, 42, kind, 10).line_at(std::numeric_limits<int>::min()) == 42);
    }
}

TEST_CASE("line table: an empty table has the first line up to 3.9 and none later") {
    CHECK(decode({}, 7, LineTableKind::kLnotab, 10).line_at(3) == 7);
    CHECK(decode({}, 7, LineTableKind::kLinetable, 10).line_at(3) == kNoLine);
    CHECK(decode({}, 7, LineTableKind::kLocations, 10).line_at(3) == kNoLine);
    CHECK(LineTable().line_at(0) == kNoLine);
}

TEST_CASE("line table: a table that ends within an entry keeps what it had") {
    CHECK(decode({6, 1, 44}, 1, LineTableKind::kLnotab, 100).line_at(50) == 2);
    CHECK(decode({4, 1, 4}, 1, LineTableKind::kLinetable, 100).line_at(1) == 2);
    CHECK(decode({0x80, 0, 0x80 | 13 << 3, 0x40}, 1, LineTableKind::kLocations).line_at(0) == 1);
    CHECK(decode({0x80, 0, 0x80 | 13 << 3, 0x40}, 1, LineTableKind::kLocations).line_at(1) == kNoLine);
}

TEST_CASE("line table: an entry without its mark ends a location table") {
    CHECK(decode({0x80, 0, 0x07, 0x80, 0}, 5, LineTableKind::kLocations).line_at(1) == kNoLine);
}

TEST_CASE("line table: a number of more than 32 bits ends a location table") {
    const auto table =
        decode({0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1}, 5, LineTableKind::kLocations);
    CHECK(table.line_at(0) == kNoLine);
}

TEST_CASE("line table: lines outside of what a line can be are no lines") {
    const int minus_63[] = {0x40 | 0x3f, 1};
    CHECK(decode({0x80 | 13 << 3, minus_63[0], minus_63[1]}, 5, LineTableKind::kLocations).line_at(0) ==
          kNoLine);
    const int last = std::numeric_limits<int>::max();
    CHECK(decode({0x80 | 11 << 3, 0, 0}, last, LineTableKind::kLocations).line_at(0) == kNoLine);
    CHECK(decode({0x80, 0}, last, LineTableKind::kLocations).line_at(0) == last);
}

TEST_CASE("line table: nothing lies behind the code that it is for") {
    CHECK(decode({0x87, 0, 0x87, 0}, 5, LineTableKind::kLocations, 10).line_at(9) == 5);
    CHECK(decode({0x87, 0, 0x87, 0}, 5, LineTableKind::kLocations, 10).line_at(10) == kNoLine);
    CHECK(decode({254, 1, 254, 1}, 5, LineTableKind::kLinetable, 10).line_at(10) == kNoLine);
    CHECK(decode({200, 1}, 5, LineTableKind::kLnotab, 10).line_at(9) == 5);
}

TEST_CASE("line table: neighbours on one line are one range") {
    std::vector<std::byte> table;
    for (int i = 0; i < 1000; ++i) {
        table.push_back(std::byte{0x87});
        table.push_back(std::byte{0});
    }
    const auto decoded = LineTable::decode(table, 3, LineTableKind::kLocations, 8000);
    CHECK(decoded.range_count() == 1);
    CHECK(decoded.line_at(7999) == 3);
}
