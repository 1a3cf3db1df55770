// SPDX-License-Identifier: Apache-2.0
//
// Expected values follow Unicode 15, section 3.9 (table 3-7) with one U+FFFD a byte, but for the
// encoded surrogate, which is one character to Python and so one U+FFFD here.
#include "profile/utf8.h"

#include <catch2/catch.hpp>
#include <string>

using pyprof::is_valid_utf8;
using pyprof::to_valid_utf8;

namespace {
const std::string kR = "\xEF\xBF\xBD";
}

TEST_CASE("utf8: well-formed text of every length is kept") {
    for (const char* text :
         {"", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
          "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "f\xC3\xBCr \xE2\x82\xAC"}) {
        CHECK(is_valid_utf8(text));
        CHECK(to_valid_utf8(text) == text);
    }
}

TEST_CASE("utf8: what is ill-formed is replaced, one mark a byte") {
    struct Case {
        std::string from;
        std::string to;
    };
    const Case cases[] = {
        {"a\x80z", "a" + kR + "z"},                        // lone continuation
        {"\xC0\xAF", kR + kR},                             // overlong
        {"\xE0\x80\x80", kR + kR + kR},                    // overlong
        {"\xF4\x90\x80\x80", kR + kR + kR + kR},           // above U+10FFFF
        {"\xF8\x88\x80\x80\x80", kR + kR + kR + kR + kR},  // no such form
        {"\xFF\xFE", kR + kR},                             //
        {"\xE2\x82", kR + kR},                             // ends too early
        {"\xF0\x9F\x92z", kR + kR + kR + "z"},             // broken off
        {"x\xED\xA0\x80y", "x" + kR + "y"},                // high surrogate
        {"x\xED\xB3\xA9y", "x" + kR + "y"},                // low surrogate
        {"\xED\xA0", kR + kR},                             // half an encoded surrogate
    };
    for (const Case& each : cases) {
        CHECK_FALSE(is_valid_utf8(each.from));
        CHECK(to_valid_utf8(each.from) == each.to);
        CHECK(is_valid_utf8(to_valid_utf8(each.from)));
    }
}
