// SPDX-License-Identifier: Apache-2.0
#include "live/process_usage.h"

#include "base/parse.h"
#include "target/proc_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace pyprof {

namespace {

constexpr std::size_t kLongestStat = 4096;

}  // namespace

// proc(5): fields are counted from 1; what stands behind the name's last bracket begins with field 3, the state. utime is 14,
// stime 15, rss 24.
std::optional<ProcessUsage> parse_usage(std::string_view stat, long ticks_per_second, long page_bytes) {
    const std::size_t bracket = stat.rfind(')');
    if (bracket == std::string_view::npos || ticks_per_second <= 0 || page_bytes <= 0) return {};
    std::string_view rest = stat.substr(bracket + 1);
    std::uint64_t ticks = 0;
    bool is_stopped = false;
    for (int field = 3; field <= 24; ++field) {
        const std::size_t begin = rest.find_first_not_of(' ');
        if (begin == std::string_view::npos) return {};
        rest.remove_prefix(begin);
        const std::size_t length = rest.find_first_of(" \n");
        if (length == std::string_view::npos) return {};  // perhaps cut
        if (field == 3) is_stopped = rest.front() == 'T';
        if (field == 14 || field == 15 || field == 24) {
            const auto value = parse_unsigned(rest.substr(0, length));
            if (!value) return {};
            if (field == 24) {
                const double cpu = static_cast<double>(ticks) / static_cast<double>(ticks_per_second);
                return ProcessUsage{std::chrono::nanoseconds(static_cast<std::int64_t>(cpu * 1e9)), *value * static_cast<std::uint64_t>(page_bytes), is_stopped};
            }
            ticks += *value;
        }
        rest.remove_prefix(length);
    }
    return {};
}

std::optional<ProcessUsage> read_usage(pid_t pid) {
    const auto text = read_file_at(AT_FDCWD, "/proc/" + std::to_string(living_thread_of(pid)) + "/stat", kLongestStat);
    if (!text) return {};
    return parse_usage(*text, ::sysconf(_SC_CLK_TCK), ::sysconf(_SC_PAGESIZE));
}

}  // namespace pyprof
