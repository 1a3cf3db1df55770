// SPDX-License-Identifier: Apache-2.0
#include "cli/shared_options.h"

#include "live/watch_name.h"

#include <fmt/format.h>

namespace pyprof {

Result<pid_t> checked_pid(long pid) {
    constexpr long kMostPids = 1L << 22;
    if (pid <= 0 || pid > kMostPids) {
        return fail(ExitCode::kUsage, fmt::format("{} is no process id", pid), "give the number that `ps` shows");
    }
    return static_cast<pid_t>(pid);
}

Result<WhichThreads> which_threads(bool idle, bool gil) {
    if (idle && gil) return fail(ExitCode::kUsage, "both --idle and --gil", "use one of them");
    return gil ? WhichThreads::kGilHolder : idle ? WhichThreads::kAll : WhichThreads::kRunning;
}

Result<AsyncMode> async_mode(const std::string& text) {
    if (text == "off") return AsyncMode::kOff;
    if (text == "running") return AsyncMode::kRunning;
    if (text == "all") return AsyncMode::kAll;
    return fail(ExitCode::kUsage, "--async " + text + " is not known", "known are: off, running, all");
}

std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known) {
    constexpr std::size_t kMostDifferent = 2;
    std::string text;
    std::size_t best = kMostDifferent + 1;
    for (const std::string& word : known) {
        const std::size_t distance = edit_distance(wrong, word, kMostDifferent);
        if (distance >= best) continue;
        best = distance;
        text = fmt::format("did you mean {}?", word);
    }
    return text;
}

}  // namespace pyprof
