// SPDX-License-Identifier: Apache-2.0
//
// What a process uses, as the kernel counts it (/proc/PID/stat): processor time and resident memory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pyprof {

struct ProcessUsage {
    std::chrono::nanoseconds cpu{0};
    std::uint64_t resident_bytes = 0;
    bool is_stopped = false;  // by a signal, as its main thread shows it
};

// Pure; foreign text that may be cut anywhere.
std::optional<ProcessUsage> parse_usage(std::string_view stat, long ticks_per_second, long page_bytes);
std::optional<ProcessUsage> read_usage(pid_t pid);

}  // namespace pyprof
