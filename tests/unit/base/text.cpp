// SPDX-License-Identifier: Apache-2.0
//
// Hostile names on their way to a terminal.
#include "base/text.h"

#include <catch2/catch.hpp>

using pyprof::decode_utf8;
using pyprof::elide_middle;
using pyprof::escape_control;

TEST_CASE("text: printable text stays as it is, also beyond ASCII") {
    CHECK(escape_control("run_loop (app.py:7)") == "run_loop (app.py:7)");
    CHECK(escape_control("größe 数 😀 \\x41") == "größe 数 😀 \\x41");
    CHECK(escape_control("").empty());
}

TEST_CASE("text: control bytes are written out") {
    CHECK(escape_control("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m");
    CHECK(escape_control(std::string("a\0b\tc\nd\re\x7f", 10)) == "a\\x00b\\x09c\\x0ad\\x0de\\x7f");
}

TEST_CASE("text: C1 controls are written out, as code points and as bare bytes") {
    CHECK(escape_control("\xc2\x9b"
                         "31m") == "\\u{9b}31m");
    CHECK(escape_control("\x9b"
                         "31m") == "\\x9b31m");
    CHECK(escape_control("\xc2\xa0") == "\xc2\xa0");
}

TEST_CASE("text: what turns the reading direction or breaks a line is written out") {
    CHECK(escape_control("a\u202eb\u2066c\u061c\u200f\u2028") ==
          "a\\u{202e}b\\u{2066}c\\u{61c}\\u{200f}\\u{2028}");
}

TEST_CASE("text: bytes that are not UTF-8 are written out one by one") {
    CHECK(escape_control("\xff\xfe") == "\\xff\\xfe");
    CHECK(escape_control("\xc0\x80") == "\\xc0\\x80");                    // overlong NUL
    CHECK(escape_control("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
    CHECK(escape_control("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
    CHECK(escape_control("\xe2\x82") == "\\xe2\\x82");                    // cut short
}

TEST_CASE("text: decode_utf8 reads one code point") {
    CHECK(decode_utf8("é!").code_point == 0xe9);
    CHECK(decode_utf8("é!").length == 2);
    CHECK(decode_utf8("😀").code_point == 0x1f600);
    CHECK(decode_utf8("").length == 0);
    CHECK(decode_utf8("\x80").length == 0);
}

TEST_CASE("text: long text loses its middle, never half a code point") {
    CHECK(elide_middle("short", 5) == "short");
    CHECK(elide_middle("0123456789abcdef", 9) == "012…def");
    CHECK(elide_middle("", 0).empty());
    CHECK(elide_middle("abcdef", 0) == "…");
    const std::string umlauts = "ääääääääää";
    for (std::size_t bytes = 3; bytes < umlauts.size(); ++bytes) {
        const std::string cut = elide_middle(umlauts, bytes);
        CHECK(cut.size() <= bytes);
        CHECK(escape_control(cut) == cut);
    }
    // Bytes that are no UTF-8 at all: nothing but continuations.
    CHECK(elide_middle(std::string(100, '\x80'), 20) == "…");
}
