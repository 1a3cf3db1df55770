// SPDX-License-Identifier: Apache-2.0
//
// The second field of /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst), kept open for each thread.
#include "target/run_delay.h"

#include "base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>
#include <array>
#include <charconv>

namespace pyprof {

std::optional<std::chrono::nanoseconds> own_run_delay() {
    thread_local const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    std::array<char, 128> text;
    const ssize_t size = file ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
    if (size <= 0) return std::nullopt;
    const char* const end = text.data() + size;
    std::uint64_t value = 0;
    const auto ran = std::from_chars(text.data(), end, value);
    if (ran.ec != std::errc() || ran.ptr == end) return std::nullopt;
    if (std::from_chars(ran.ptr + 1, end, value).ec != std::errc()) return std::nullopt;
    return std::chrono::nanoseconds{static_cast<std::int64_t>(value)};
}

}  // namespace pyprof
