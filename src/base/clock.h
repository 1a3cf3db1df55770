// SPDX-License-Identifier: Apache-2.0
//
// The clocks that pyprof measures with, in nanoseconds. Wall-clock time is for titles only and is not
// found here: it jumps.
#pragma once

#include <chrono>

namespace pyprof {

std::chrono::nanoseconds monotonic_now();     // CLOCK_MONOTONIC
std::chrono::nanoseconds thread_cpu_time();   // processor time of the calling thread
std::chrono::nanoseconds process_cpu_time();  // processor time of all our threads

}  // namespace pyprof
