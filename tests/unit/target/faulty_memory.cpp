// SPDX-License-Identifier: Apache-2.0
//
// Faults come where they were ordered and nowhere else.
#include "target/faulty_memory.h"

#include "target/snapshot_target.h"

#include <catch2/catch.hpp>

#include <array>

using namespace pyprof;

namespace {

SnapshotTarget target_of_numbers() {
    Snapshot snapshot;
    std::array<std::byte, 256> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    REQUIRE(snapshot.memory.add(Address{0x1000}, bytes));
    return SnapshotTarget(std::move(snapshot));
}

ReadOutcome read_four(Memory& memory, std::array<std::byte, 4>& bytes) {
    std::array<ReadRange, 4> ranges;
    for (std::size_t i = 0; i < 4; ++i) ranges[i] = {Address{0x1000 + 16 * i}, {&bytes[i], 1}};
    return memory.read(ranges);
}

}  // namespace

TEST_CASE("faults: the Nth read fails, and so many after it") {
    auto target = target_of_numbers();
    FaultPlan plan;
    plan.bad_read = 2;
    plan.bad_count = 2;
    plan.fault = ReadFault::kGone;
    target.inject(plan);
    std::array<std::byte, 4> bytes{};
    CHECK(read_four(target.memory(), bytes).complete == 4);
    for (int i = 0; i < 2; ++i) {
        CHECK(read_four(target.memory(), bytes).complete == 0);
    }
    CHECK(read_four(target.memory(), bytes).fault == ReadFault::kNone);
}

TEST_CASE("faults: a short read fills the ranges before the bad one") {
    auto target = target_of_numbers();
    FaultPlan plan;
    plan.bad_read = 1;
    plan.complete = 3;
    target.inject(plan);
    std::array<std::byte, 4> bytes{};
    const ReadOutcome outcome = read_four(target.memory(), bytes);
    CHECK(outcome.complete == 3);
    CHECK(outcome.fault == ReadFault::kUnmapped);
    CHECK(bytes[2] == std::byte{32});
    CHECK(bytes[3] == std::byte{0});
}

TEST_CASE("faults: a gap is never read, also by a range that runs into it") {
    auto target = target_of_numbers();
    FaultPlan plan;
    plan.gaps = {{Address{0x1020}, Address{0x1021}}};
    target.inject(plan);
    std::array<std::byte, 4> bytes{};
    CHECK(read_four(target.memory(), bytes).complete == 2);
    CHECK_FALSE(read_bytes(target.memory(), Address{0x101e}, bytes));
    CHECK(read_bytes(target.memory(), Address{0x101c}, bytes));
    CHECK(read_bytes(target.memory(), Address{0x1021}, bytes));
}

TEST_CASE("faults: bytes are distorted after they were read") {
    auto target = target_of_numbers();
    FaultPlan plan;
    plan.distort = [](Address from, std::span<std::byte> bytes) {
        if (from == Address{0x1004}) bytes[0] = std::byte{0xff};
    };
    target.inject(plan);
    CHECK(read_value<std::uint8_t>(target.memory(), Address{0x1004}) == 0xff);
    CHECK(read_value<std::uint8_t>(target.memory(), Address{0x1005}) == 5);
}
