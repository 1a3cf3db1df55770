// SPDX-License-Identifier: Apache-2.0
//
// The ring between the sampler and main: order, bounds, and two threads under TSan.
#include "base/spsc_ring.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <memory>
#include <thread>

using pyprof::SpscRing;

TEST_CASE("ring: gives back what was put in, in order, and refuses when full") {
    SpscRing<int> ring(4);
    int value = 0;
    CHECK_FALSE(ring.try_pop(value));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 4; ++i) CHECK(ring.try_push(i));
        CHECK_FALSE(ring.try_push(99));
        for (int i = 0; i < 4; ++i) {
            REQUIRE(ring.try_pop(value));
            CHECK(value == i);
        }
        CHECK_FALSE(ring.try_pop(value));
    }
}

TEST_CASE("ring: a refused value stays with its owner") {
    SpscRing<std::unique_ptr<int>> ring(1);
    CHECK(ring.try_push(std::make_unique<int>(1)));
    auto second = std::make_unique<int>(2);
    CHECK_FALSE(ring.try_push(std::move(second)));
    REQUIRE(second);
    CHECK(*second == 2);
}

TEST_CASE("ring: one producer and one consumer lose and reorder nothing") {
    constexpr std::uint64_t kCount = 200'000;
    SpscRing<std::uint64_t> ring(64);
    std::thread producer([&] {
        for (std::uint64_t i = 0; i < kCount;) {
            if (ring.try_push(i)) {
                ++i;
            } else {
                std::this_thread::yield();
            }
        }
    });
    std::uint64_t expected = 0;
    bool in_order = true;
    for (std::uint64_t value = 0; expected < kCount;) {
        if (ring.try_pop(value)) {
            in_order = in_order && value == expected++;
        } else {
            std::this_thread::yield();
        }
    }
    producer.join();
    CHECK(in_order);
    std::uint64_t rest = 0;
    CHECK_FALSE(ring.try_pop(rest));
}
