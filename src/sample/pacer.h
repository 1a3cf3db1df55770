// SPDX-License-Identifier: Apache-2.0
//
// When to sample. Time is cut into periods of equal length and one moment is drawn at random within
// each: the mean rate is kept exactly, and a program that works in step with the period is not misread. The seed and the number of
// the period give the moment, so the next one is always known (sleeper.h says what for).
// A period that has passed is dropped and counted, never caught up with; the next sample stands for it. For a long gap, as
// when we are stopped ourselves, no sample stands: nobody knows what the program did.
#pragma once

#include "sample/sleeper.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace pyprof {

class Pacer {
public:
    using Nanoseconds = std::chrono::nanoseconds;
    struct Tick {
        Nanoseconds when{0};    // CLOCK_MONOTONIC
        Nanoseconds weight{0};  // the time this tick stands for
        std::uint64_t late = 0;   // periods dropped before it
        Nanoseconds paused{0};    // their time, where the tick does not stand for it
    };

    // More of both than this is too long a gap for one tick.
    static constexpr Nanoseconds kLongestGap = std::chrono::seconds(1);
    static constexpr std::uint64_t kMostPeriods = 20;

    // rate_hz 0: as fast as can be. `start` is the beginning of the first period.
    Pacer(double rate_hz, Nanoseconds start, std::uint64_t seed);

    // Sleeps until the next moment; wakes early (and the tick means nothing) when `stop` is set. `before_sleep` is called
    // before each of its sleeps and says how long that may be at most.
    Tick wait(const std::atomic<bool>& stop, const std::function<Nanoseconds()>& before_sleep = {});

    // Drops all periods until now; no sample stands for them. How many they are.
    std::uint64_t skip(Nanoseconds now);

    // The decision alone, for tests: the moment to sleep until, given that it is `now`.
    struct Plan {
        Nanoseconds deadline{0};
        Nanoseconds weight{0};
        std::uint64_t late = 0;
        Nanoseconds paused{0};
    };
    Plan plan(Nanoseconds now);

private:
    [[nodiscard]] Nanoseconds moment_in(std::uint64_t period) const;
    [[nodiscard]] std::uint64_t period_at(Nanoseconds now) const;

    double period_ns_ = 0;
    Nanoseconds start_{0};
    Nanoseconds last_{0};
    Nanoseconds last_weight_{0};
    std::uint64_t next_period_ = 0;
    std::uint64_t seed_;
    Sleeper sleeper_;
};

}  // namespace pyprof
