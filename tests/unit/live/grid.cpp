// SPDX-License-Identifier: Apache-2.0
#include "live/grid.h"
#include "live/text_width.h"

#include <catch2/catch.hpp>

using namespace pyprof;

TEST_CASE("text width: wide characters take two columns, combining ones none") {
    CHECK(columns_of("abc") == 3);
    CHECK(columns_of("日本") == 4);
    CHECK(columns_of("e\u0301") == 1);
    CHECK(columns_of("ａ") == 2);      // fullwidth a
    CHECK(columns_of("é▁…") == 3);     // ambiguous: one
    CHECK(columns_of("\u0301") == 1);  // a mark without a base is drawn as something
    CHECK(columns_of("\xff") == 1);
    CHECK(columns_of("") == 0);
}

TEST_CASE("text width: marks beyond four are dropped") {
    std::string text = "a";
    for (int i = 0; i < 100; ++i) text += "\u0301";
    std::string_view rest = text;
    const Glyph glyph = take_glyph(rest);
    CHECK(glyph.text.size() == 1 + 4 * 2);
    CHECK(rest.empty());
}

TEST_CASE("text width: a cut text fits and says that it is cut") {
    CHECK(cut_end("abcdef", 6) == "abcdef");
    CHECK(cut_end("abcdef", 4) == "abc…");
    CHECK(cut_end("abcdef", 1) == "…");
    CHECK(cut_end("abcdef", 0).empty());
    CHECK(cut_end("日本語", 5) == "日本…");
    CHECK(cut_end("日本語", 4) == "日…");
    CHECK(cut_begin("abcdef", 6) == "abcdef");
    CHECK(cut_begin("abcdef", 4) == "…def");
    CHECK(cut_begin("日本語", 4) == "…語");
    CHECK(cut_begin("abcdef", 1) == "…");
    CHECK(cut_begin("abcdef", 0).empty());
    for (int columns = 0; columns < 12; ++columns) {
        CHECK(columns_of(cut_end("a日b本c語d", columns)) <= columns);
        CHECK(columns_of(cut_begin("a日b本c語d", columns)) <= columns);
    }
}

TEST_CASE("grid: text is cut at the end that is given, and outside of the grid nothing is drawn") {
    Grid grid(2, 10);
    CHECK(grid.put(0, 2, "abcdef", {}, 6) == 6);
    grid.put(1, 0, "0123456789abc");
    grid.put(2, 0, "below");
    grid.put(-1, 0, "above");
    grid.put(0, 10, "right");
    CHECK(grid.text() == "  abc…\n012345678…\n");
}

TEST_CASE("grid: a wide character that is half covered leaves a blank") {
    Grid grid(1, 6);
    grid.put(0, 0, "日本語");
    CHECK(grid.at(0, 1).text.empty());
    grid.put(0, 1, "x");
    CHECK(grid.text() == " x本語\n");
    grid.put(0, 2, "y");
    CHECK(grid.text() == " xy 語\n");
}

TEST_CASE("grid: control bytes and turned text of a program are escaped") {
    Grid grid(1, 30);
    grid.put(0, 0, "a\x1b[2Jb\u202e");
    CHECK(grid.text() == "a\\x1b[2Jb\\u{202e}\n");
}

TEST_CASE("grid: right-aligned text ends where it is told") {
    Grid grid(1, 10);
    grid.put_right(0, 8, "12.5");
    CHECK(grid.text() == "    12.5\n");
    grid.put_right(0, 3, "123456");
    CHECK(grid.text() == "12… 12.5\n");
}

TEST_CASE("grid: in ASCII every column stays where it was") {
    Grid grid(1, 12);
    grid.put(0, 0, "日▁█ …e\u0301z");
    CHECK(in_ascii(grid).text() == "??_# ~?z\n");
}
