// SPDX-License-Identifier: Apache-2.0
//
// Durations and rates as people type them.
#include "base/parse.h"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using pyprof::ExitCode;
using pyprof::parse_duration;
using pyprof::parse_rate;
using pyprof::parse_unsigned;

TEST_CASE("parse: durations with and without a unit") {
    CHECK(parse_duration("30").value() == 30s);
    CHECK(parse_duration("30s").value() == 30s);
    CHECK(parse_duration("1.5s").value() == 1500ms);
    CHECK(parse_duration("2m").value() == 2min);
    CHECK(parse_duration("1h").value() == 1h);
    CHECK(parse_duration("500ms").value() == 500ms);
    CHECK(parse_duration("0.5").value() == 500ms);
}

TEST_CASE("parse: what is not a duration is refused with a hint") {
    for (const char* text : {"",
                             "s",
                             "-1",
                             "+1",
                             " 1",
                             "1 ",
                             "1 s",
                             "1d",
                             "1e3",
                             "0x10",
                             "inf",
                             "nan",
                             "1.",
                             ".5",
                             "1..2",
                             "1s2",
                             "0",
                             "0ms",
                             "0.0000000001",
                             "9999999h",
                             "1min",
                             "10ks",
                             "99999999999999999999999999999999999999999999"}) {
        INFO(text);
        const auto duration = parse_duration(text);
        REQUIRE_FALSE(duration);
        CHECK(duration.error().code == ExitCode::kUsage);
        CHECK_FALSE(duration.error().hint.empty());
    }
}

TEST_CASE("parse: rates, with k and hertz, and max") {
    CHECK(parse_rate("100").value() == 100.0);
    CHECK(parse_rate("2.5").value() == 2.5);
    CHECK(parse_rate("10k").value() == 10000.0);
    CHECK(parse_rate("1khz").value() == 1000.0);
    CHECK(parse_rate("1kHz").value() == 1000.0);
    CHECK(parse_rate("50Hz").value() == 50.0);
    CHECK(parse_rate("max").value() == 0.0);
}

TEST_CASE("parse: what is not a rate is refused with a hint") {
    for (const char* text : {"", "0", "-5", "fast", "MAX", "10kk", "10m", "10 k", "nan", "inf", "1e4",
                             "1000001", "2000k", "0.0001", "1k5"}) {
        INFO(text);
        const auto rate = parse_rate(text);
        REQUIRE_FALSE(rate);
        CHECK(rate.error().code == ExitCode::kUsage);
        CHECK_FALSE(rate.error().hint.empty());
    }
}

TEST_CASE("parse: whole numbers and nothing else") {
    CHECK(parse_unsigned("0") == 0U);
    CHECK(parse_unsigned("18446744073709551615") == 18446744073709551615U);
    for (const char* text : {"", "-1", "+1", "1 ", "0x1", "18446744073709551616", "1.0"}) {
        INFO(text);
        CHECK_FALSE(parse_unsigned(text));
    }
}
