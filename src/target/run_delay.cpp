// SPDX-License-Identifier: Apache-2.0
//
// From /proc/thread-self/schedstat, kept open for each thread.
#include "target/run_delay.h"

#include "base/unique_fd.h"
#include "target/proc_parse.h"

#include <fcntl.h>
#include <unistd.h>
#include <array>

namespace pyprof {

std::optional<std::chrono::nanoseconds> own_run_delay() {
    thread_local const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    std::array<char, 128> text;
    const ssize_t size = file ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
    if (size <= 0) return std::nullopt;
    const auto delay = parse_run_delay({text.data(), static_cast<std::size_t>(size)});
    if (!delay) return std::nullopt;
    return std::chrono::nanoseconds{static_cast<std::int64_t>(*delay)};
}

}  // namespace pyprof
