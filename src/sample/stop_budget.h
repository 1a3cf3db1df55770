// SPDX-License-Identifier: Apache-2.0
//
// How often a thread may be stopped: for a thousandth of the time that has passed, and no more. A stop is
// paid for with the time that it really took, and counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace pyprof {

class StopBudget {
public:
    using Nanoseconds = std::chrono::nanoseconds;

    // A stop takes some 50 us (docs/performance.md): the next one must fit whole.
    [[nodiscard]] bool allows(Nanoseconds elapsed) const {
        const Nanoseconds expected = stops_ == 0 ? kFirstStop : spent_ / static_cast<std::int64_t>(stops_);
        return spent_ + expected <= elapsed / kShare;
    }
    void spend(Nanoseconds time) {
        spent_ += time;
        longest_ = std::max(longest_, time);
        ++stops_;
    }
    // A stop that was given up has held the thread for longer.
    void lengthen(Nanoseconds time) {
        spent_ += time;
        longest_ = std::max(longest_, time);
    }
    [[nodiscard]] std::uint64_t stops() const { return stops_; }
    [[nodiscard]] Nanoseconds spent() const { return spent_; }
    [[nodiscard]] Nanoseconds longest() const { return longest_; }

private:
    static constexpr std::int64_t kShare = 1000;
    static constexpr Nanoseconds kFirstStop = std::chrono::microseconds(50);

    std::uint64_t stops_ = 0;
    Nanoseconds spent_{0};
    Nanoseconds longest_{0};
};

}  // namespace pyprof
