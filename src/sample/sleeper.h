// SPDX-License-Identifier: Apache-2.0
//
// Sleeps until moments of which the one after next is known, too. To set the kernel's next event costs a write to a register of
// the processor's timer, some 15 us where a hypervisor stands behind it: more than a sample. So two timers take turns. While
// we sleep by one, the other is set already, and when the first one fires the kernel sets the next event by itself; what we set then
// is never the next. Measured here: 23 us a sleep by clock_nanosleep, 9 us so (docs/performance.md).
#pragma once

#include "base/unique_fd.h"

#include <array>
#include <chrono>
#include <cstddef>

namespace pyprof {

class Sleeper {
public:
    using Nanoseconds = std::chrono::nanoseconds;

    // By clock_nanosleep where there can be no timers.
    Sleeper();

    // Returns at `until` (CLOCK_MONOTONIC), or earlier when a signal comes. `after` is the moment that the next call will most
    // likely name; any other costs only what is saved otherwise.
    void sleep_until(Nanoseconds until, Nanoseconds after);

    // For a moment that was never named before, and none after it.
    static void sleep_once(Nanoseconds until);

private:
    struct Timer {
        UniqueFd fd;
        Nanoseconds set_for{0};
        bool set(Nanoseconds moment);  // true if it is set for this moment
    };
    std::array<Timer, 2> timers_;
    std::size_t turn_ = 0;
};

}  // namespace pyprof
