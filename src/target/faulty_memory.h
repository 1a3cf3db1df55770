// SPDX-License-Identifier: Apache-2.0
//
// A Memory whose reads fail on demand, for replaying what a moving target does: a page goes, a call comes
// back short, bytes are torn. For tests.
#pragma once

#include <pyprof/memory.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pyprof {

struct FaultPlan {
    std::uint64_t bad_read = 0;   // the number of the first read that fails, from 1 on; 0: none
    std::uint64_t bad_count = 1;  // so many reads in a row fail
    ReadFault fault = ReadFault::kUnmapped;
    std::size_t complete = 0;  // ranges that a failing read still fills

    struct Gap {
        Address start{};
        Address end{};
    };
    std::vector<Gap> gaps;  // never readable

    // May change what a range holds after it was read.
    std::function<void(Address from, std::span<std::byte> bytes)> distort;
};

class FaultyMemory final : public Memory {
public:
    FaultyMemory(Memory& inner, FaultPlan plan) : inner_(inner), plan_(std::move(plan)) {}

    [[nodiscard]] ReadOutcome read(std::span<const ReadRange> ranges) override;
    [[nodiscard]] ReadCounters counters() const override { return inner_.counters(); }
    [[nodiscard]] std::uint64_t reads() const { return reads_; }

private:
    [[nodiscard]] bool is_in_gap(const ReadRange& range) const;

    Memory& inner_;
    FaultPlan plan_;
    std::uint64_t reads_ = 0;
};

}  // namespace pyprof
