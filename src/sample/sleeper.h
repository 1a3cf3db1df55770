// SPDX-License-Identifier: Apache-2.0
//
// Sleeps until moments, of which each time the one that follows is known, too. To set the kernel's next event costs a write to a
// register of the processor's timer: some 15 us where a hypervisor stands behind it, more than a sample. So two timers take
// turns. While we sleep by one the other is set already; when the first one fires, the kernel goes over to the next event by
// itself, and what we set then is a later one. On such a machine a sleep takes 9 us of processor time, by clock_nanosleep 23
// (docs/performance.md).
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
    // likely name; another one may be named, and costs what is saved otherwise.
    void sleep_until(Nanoseconds until, Nanoseconds after);

    // Where no next moment is known.
    static void sleep_once(Nanoseconds until);

private:
    struct Timer {
        UniqueFd fd;
        Nanoseconds set_for{0};  // 0: it is not set
        bool set(Nanoseconds moment);  // false: it can't be
    };
    std::array<Timer, 2> timers_;
    std::size_t turn_ = 0;
};

}  // namespace pyprof
