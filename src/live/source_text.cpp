// SPDX-License-Identifier: Apache-2.0
#include "live/source_text.h"

#include "base/unique_fd.h"
#include "target/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pyprof {

namespace {

constexpr off_t kLargestFile = off_t{8} << 20;

UniqueFd open_below(const std::string& directory, const std::string& path, std::uint64_t resolve) {
    const UniqueFd root(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return {};
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    how.resolve = resolve;
    UniqueFd file(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
    return file;
}

}  // namespace

Result<SourceText> read_source(pid_t pid, const std::string& path) {
    const std::string process = fmt::format("/proc/{}", living_thread_of(pid));
    const bool is_absolute = !path.empty() && path.front() == '/';
    // openat2(2): in the target's root, a link to /usr is the target's /usr.
    const UniqueFd file = is_absolute ? open_below(process + "/root", path, RESOLVE_IN_ROOT)
                                      : open_below(process + "/cwd", path, RESOLVE_BENEATH);
    if (!file) return fail(ExitCode::kFailure, fmt::format("can't read {}: {}", path, std::strerror(errno)));
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return fail(ExitCode::kFailure, path + " is no regular file");
    if (facts.st_size > kLargestFile) return fail(ExitCode::kFailure, path + " is too large to show");
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    std::size_t got = 0;
    while (got < text.size()) {
        const ssize_t more = ::pread(file.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) break;
        got += static_cast<std::size_t>(more);
    }
    text.resize(got);

    SourceText source;
    std::string line;
    for (const char c : text) {
        if (c == '\n') {
            source.lines.push_back(std::move(line));
            line.clear();
        } else if (c == '\t') {
            line.append(8 - line.size() % 8, ' ');
        } else if (c != '\r') {
            line += c;
        }
    }
    if (!line.empty()) source.lines.push_back(std::move(line));
    struct stat started {};
    const bool is_known = ::stat(process.c_str(), &started) == 0;  // made when the process was, as far as /proc tells
    source.is_newer = is_known && facts.st_mtim.tv_sec > started.st_mtim.tv_sec;
    return source;
}

}  // namespace pyprof
