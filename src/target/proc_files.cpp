// SPDX-License-Identifier: Apache-2.0
//
// Everything goes through an open /proc/PID directory: it belongs to one process and answers ESRCH when
// that has gone, even if its number has been given to another.
#include "target/proc_files.h"

#include "base/parse.h"
#include "target/proc_parse.h"

#include <fmt/format.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace pyprof {
namespace {

constexpr std::size_t kStatLimit = 4096;

ssize_t read_some(int fd, char* to, std::size_t size) {
    ssize_t got = 0;
    do {
        got = ::read(fd, to, size);
    } while (got < 0 && errno == EINTR);
    return got;
}

}  // namespace

OrErrno<UniqueFd> open_at(int directory, const std::string& path, int flags) {
    int fd = -1;
    do {
        fd = ::openat(directory, path.c_str(), flags | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) return tl::unexpected<int>(errno);
    return UniqueFd(fd);
}

UniqueFd open_regular(const std::string& path) {
    auto file = open_at(AT_FDCWD, path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    struct stat info {};
    if (!file || ::fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return UniqueFd();
    return std::move(*file);
}

OrErrno<std::string> read_file_at(int directory, const std::string& path, std::size_t limit) {
    const auto fd = open_at(directory, path, O_RDONLY | O_NOCTTY);
    if (!fd) return tl::unexpected<int>(fd.error());
    std::string text;
    std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    while (text.size() < limit) {
        const ssize_t got = read_some(fd->get(), buffer.data(), std::min(buffer.size(), limit - text.size()));
        if (got < 0) return tl::unexpected<int>(errno);
        if (got == 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
}

OrErrno<std::string> read_link_at(int directory, const std::string& path) {
    std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t length = ::readlinkat(directory, path.c_str(), buffer.data(), buffer.size());
    if (length < 0) return tl::unexpected<int>(errno);
    return std::string(buffer.data(), static_cast<std::size_t>(length));
}

OrErrno<std::vector<pid_t>> list_numbers_at(int directory, const std::string& path) {
    auto fd = open_at(directory, path, O_RDONLY | O_DIRECTORY);
    if (!fd) return tl::unexpected<int>(fd.error());
    DIR* stream = ::fdopendir(fd->get());
    if (stream == nullptr) return tl::unexpected<int>(errno);
    static_cast<void>(fd->release());  // the stream's now
    std::vector<pid_t> numbers;
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
        const auto number = parse_unsigned(entry->d_name);
        if (number && *number <= std::numeric_limits<pid_t>::max())
            numbers.push_back(static_cast<pid_t>(*number));
        errno = 0;
    }
    const int error = errno;
    ::closedir(stream);
    if (error != 0) return tl::unexpected<int>(error);
    return numbers;
}

pid_t living_thread_of(pid_t pid, const std::string& root) {
    const auto has_ended = [](const OrErrno<std::string>& stat) {
        const char letter = stat ? parse_state_letter(*stat) : '\0';
        return letter == 'Z' || letter == 'X';
    };
    const std::string process = fmt::format("{}/proc/{}", root, pid);
    if (!has_ended(read_file_at(AT_FDCWD, process + "/stat", kStatLimit))) return pid;
    for (const pid_t tid : list_numbers_at(AT_FDCWD, process + "/task").value_or(std::vector<pid_t>())) {
        const auto stat = read_file_at(AT_FDCWD, fmt::format("{}/task/{}/stat", process, tid), kStatLimit);
        if (stat && !has_ended(stat)) return tid;
    }
    return 0;
}

// stat is the longest: 52 numbers of at most 20 digits and a name of at most 64 bytes.
struct ThreadFiles::Text {
    std::array<char, 1536> bytes;
    std::size_t size = 0;
    [[nodiscard]] std::string_view view() const { return {bytes.data(), size}; }
};

int ThreadFiles::read(pid_t tid, File file, Text& text) {
    static constexpr const char* kNames[kFileCount] = {"syscall", "schedstat", "stat"};
    const auto found = threads_.find(tid);
    const int kept = found == threads_.end() ? -1 : found.value().files[file].get();
    UniqueFd passing;
    if (kept < 0) {
        auto opened = open_at(process_, fmt::format("task/{}/{}", tid, kNames[file]), O_RDONLY);
        if (!opened) return opened.error();
        passing = std::move(*opened);
    }
    const int fd = kept < 0 ? passing.get() : kept;
    ssize_t got = 0;
    do {
        got = ::pread(fd, text.bytes.data(), text.bytes.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return errno;
    text.size = static_cast<std::size_t>(got);
    if (passing && open_count_ < most_open_) {
        threads_[tid].files[file] = std::move(passing);
        ++open_count_;
    }
    return 0;
}

Activity ThreadFiles::read_activity(pid_t tid) {
    Text text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const int error = read(tid, kSyscall, text);
    if (error == 0) return parse_syscall(text.view());
    Activity activity;
    if (error == ESRCH || error == ENOENT) activity.kind = Activity::Kind::kGone;
    return activity;
}

std::optional<std::uint64_t> ThreadFiles::read_switch_count(pid_t tid) {
    Text text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    if (read(tid, kSchedstat, text) != 0) return {};
    return parse_switch_count(text.view());
}

char ThreadFiles::read_state_letter(pid_t tid) {
    Text text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    if (read(tid, kStat, text) != 0) return '\0';
    return parse_state_letter(text.view());
}

void ThreadFiles::forget(pid_t tid) {
    const auto found = threads_.find(tid);
    if (found == threads_.end()) return;
    for (const UniqueFd& file : found->second.files) open_count_ -= file ? 1 : 0;
    threads_.erase(found);
}

}  // namespace pyprof
