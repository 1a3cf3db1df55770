// SPDX-License-Identifier: Apache-2.0
//
// For how long our own thread has stood in line for a processor, by the kernel's account. On a busy machine that is
// the time between what woke us and our doing anything about it.
#pragma once

#include <chrono>
#include <optional>

namespace pyprof {

// Of the calling thread, since its start; empty where the kernel does not count it (CONFIG_SCHED_INFO).
std::optional<std::chrono::nanoseconds> own_run_delay();

}  // namespace pyprof
