// SPDX-License-Identifier: Apache-2.0
#include "live/watch_history.h"

#include "base/text.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace pyprof {

namespace {

constexpr off_t kMostBytes = 256 * 1024;  // read, from the end; beyond it the file is cut

// The directory of the file, made where it is missing; nothing where it is not ours.
UniqueFd open_directory(const std::string& path, bool may_make) {
    const std::string directory = path.substr(0, path.rfind('/'));
    for (std::size_t slash = directory.find('/', 1); may_make; slash = directory.find('/', slash + 1)) {
        ::mkdir(directory.substr(0, slash).c_str(), 0700);  // what is there already fails, and is well
        if (slash == std::string::npos) break;
    }
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat found {};
    if (!fd || ::fstat(fd.get(), &found) != 0 || found.st_uid != ::geteuid()) return {};
    return fd;
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

UniqueFd open_file(const UniqueFd& directory, const std::string& name, int flags) {
    UniqueFd fd(::openat(directory.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    struct stat found {};
    if (!fd || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid()) return {};
    return fd;
}

std::string read_end(int fd, off_t size) {
    std::string text(static_cast<std::size_t>(std::min(size, kMostBytes)), '\0');
    const ssize_t got = ::pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (size > kMostBytes) text.erase(0, text.find('\n') == std::string::npos ? text.size() : text.find('\n') + 1);
    return text;
}

// What we would write ourselves. Anything else could do more to a terminal than be shown.
bool is_line(std::string_view line) { return !line.empty() && line.size() <= WatchHistory::kLongestLine && escape_control(line) == line; }

bool write_whole(int fd, const std::string& text) { return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()); }

void replace(const UniqueFd& directory, const std::string& name, const std::vector<std::string>& lines) {
    const std::string other = name + "." + std::to_string(::getpid());
    const UniqueFd fd = open_file(directory, other, O_WRONLY | O_CREAT | O_EXCL);
    if (!fd) return;
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    if (!write_whole(fd.get(), text) || ::renameat(directory.get(), other.c_str(), directory.get(), name.c_str()) != 0) {
        ::unlinkat(directory.get(), other.c_str(), 0);
    }
}

}  // namespace

std::vector<std::string> lines_of_history(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (is_line(text.substr(0, end))) lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (lines.size() > WatchHistory::kMostLines) lines.erase(lines.begin(), lines.end() - WatchHistory::kMostLines);
    return lines;
}

std::vector<std::string> WatchHistory::load() {
    if (path_.empty()) return {};
    const UniqueFd directory = open_directory(path_, false);
    if (!directory) return {};
    const UniqueFd fd = open_file(directory, name_of(path_), O_RDONLY);
    struct stat found {};
    if (!fd || ::fstat(fd.get(), &found) != 0) return {};
    std::vector<std::string> lines = lines_of_history(read_end(fd.get(), found.st_size));
    if (found.st_size > kMostBytes) replace(directory, name_of(path_), lines);
    if (!lines.empty()) last_ = lines.back();
    return lines;
}

void WatchHistory::add(const std::string& line) {
    if (path_.empty() || line == last_ || !is_line(line) || line.front() == ' ') return;
    const UniqueFd directory = open_directory(path_, true);
    if (!directory) return;
    const UniqueFd fd = open_file(directory, name_of(path_), O_WRONLY | O_CREAT | O_APPEND);
    if (fd && write_whole(fd.get(), line + '\n')) last_ = line;
}

std::string watch_history_path(const char* state_home, const char* home) {
    constexpr const char* kName = "/pyprof/watch_history";
    // A relative path is none, by the XDG Base Directory Specification.
    if (state_home != nullptr && *state_home == '/') return std::string(state_home) + kName;
    if (home != nullptr && *home == '/') return std::string(home) + "/.local/state" + kName;
    return "";
}

}  // namespace pyprof
