// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace pyprof {

Result<WatchScript> WatchScript::open(const std::string& path) {
    WatchScript script;
    if (path.empty() || path == "-") {
        script.fd_ = STDIN_FILENO;
        return script;
    }
    script.file_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!script.file_) return fail(ExitCode::kFailure, fmt::format("can't read {}: {}", path, std::strerror(errno)));
    script.fd_ = script.file_.get();
    return script;
}

Result<std::optional<std::string>> WatchScript::next_line(const std::function<bool(int fd)>& wait) {
    std::size_t end = 0;
    while ((end = pending_.find('\n')) == std::string::npos && !is_at_end_) {
        if (pending_.size() > kLongestLine) return fail(ExitCode::kUsage, "a command of more than 64 KiB");
        if (!wait(fd_)) return std::optional<std::string>();
        char buffer[4096];
        const ssize_t got = ::read(fd_, buffer, sizeof buffer);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return fail(ExitCode::kFailure, fmt::format("can't read commands: {}", std::strerror(errno)));
        is_at_end_ = got == 0;
        pending_.append(buffer, static_cast<std::size_t>(got));
    }
    if (pending_.empty()) return std::optional<std::string>();
    ++line_number_;
    std::string line = pending_.substr(0, end);
    pending_.erase(0, end == std::string::npos ? end : end + 1);
    return std::optional<std::string>(std::move(line));
}

}  // namespace pyprof
