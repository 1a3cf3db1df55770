// SPDX-License-Identifier: Apache-2.0
//
// clock_gettime with the unit in the type. It can fail only for a clock that does not exist.
#include "base/clock.h"

#include <pyprof/error.h>

#include <time.h>

namespace pyprof {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) {
    timespec time{};
    check(clock_gettime(id, &time) == 0, "clock_gettime failed");
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds monotonic_now() {
    return read_clock(CLOCK_MONOTONIC);
}
std::chrono::nanoseconds thread_cpu_time() {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
std::chrono::nanoseconds process_cpu_time() {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace pyprof
