// SPDX-License-Identifier: Apache-2.0
#include "sample/read_pace.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace std::chrono_literals;

TEST_CASE("read pace: a copy that took several times the usual was interrupted") {
    ReadPace pace;
    CHECK(pace.note(20, 4'096, 6us));
    for (int i = 0; i < 50; ++i) CHECK(pace.note(20, 4'096, i % 2 == 0 ? 5us : 9us));
    CHECK_FALSE(pace.note(20, 4'096, 1ms));
    CHECK(pace.note(20, 4'096, 7us));
}

TEST_CASE("read pace: long copies may take as much longer as there is more of them") {
    ReadPace pace;
    CHECK(pace.note(8, 2'048, 4us));
    CHECK(pace.note(200, 2'048, 90us));
    CHECK(pace.note(8, 400'000, 80us));
    CHECK_FALSE(pace.note(8, 2'048, 80us));
}

TEST_CASE("read pace: where all copies become slow, that is usual after a while; a few do not count") {
    ReadPace pace;
    for (int i = 0; i < 100; ++i) pace.note(10, 0, 3us);
    for (int i = 0; i < 5; ++i) CHECK_FALSE(pace.note(10, 0, 60us));
    int refused = 0;
    for (int i = 0; i < 200; ++i) refused += pace.note(10, 0, 60us) ? 0 : 1;
    CHECK(refused < 50);
    CHECK(pace.note(10, 0, 60us));
    CHECK_FALSE(pace.note(10, 0, 600us));
}

TEST_CASE("read pace: the first copy may be of any length, and nothing has no pace") {
    ReadPace pace;
    CHECK(pace.note(0, 0, 0ns));
    CHECK(pace.note(0, 0, 1s));
    CHECK(pace.note(0, 0, 1s));
}
