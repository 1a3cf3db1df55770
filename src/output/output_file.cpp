// SPDX-License-Identifier: Apache-2.0
//
// Finding out what a path is, then writing it the way that fits. Links are followed by hand up to the
// last component, because a link that lies in /proc (/dev/stdout, /dev/fd/3) is no path to follow: it
// stands for an open file, which is written through and never replaced.
#include "output/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/blocked_signals.h"
#include "base/parse.h"
#include "output/fd_stream.h"

namespace pyprof {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path, int reason) {
    std::string hint;
    if (reason == ENOENT) hint = "make the directory first, or name another file with --output";
    if (reason == EACCES || reason == EROFS || reason == EISDIR) hint = "name another file with --output";
    if (reason == ENOSPC || reason == EDQUOT)
        hint = "free some space, or name a file elsewhere with --output";
    return fail(ExitCode::kFailure,
                fmt::format("can't write {}: {}", path, std::generic_category().message(reason)), hint);
}

struct SplitPath {
    std::string directory;
    std::string name;
};

SplitPath split(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {".", path};
    return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::optional<std::string> real_path(const std::string& path) {
    const std::unique_ptr<char, void (*)(void*)> found(::realpath(path.c_str(), nullptr), std::free);
    if (!found) return std::nullopt;
    return std::string(found.get());
}

std::optional<std::string> link_target(const std::string& path) {
    std::array<char, PATH_MAX> buffer{};
    const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
    if (length < 0 || static_cast<std::size_t>(length) == buffer.size()) return std::nullopt;
    return std::string(buffer.data(), static_cast<std::size_t>(length));
}

bool is_in_proc(const std::string& directory) {
    struct statfs status {};
    return ::statfs(directory.c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

struct Place {
    std::string path;           // links followed
    bool is_open_file = false;  // a link in /proc that stands for a file which some process has open
};

// Follows links even to a file that does not exist yet, which realpath(3) refuses.
Result<Place> follow_links(const std::string& original) {
    std::string path = original;
    for (int links = 0; links < 40; ++links) {  // the kernel's own limit, path_resolution(7)
        const SplitPath parts = split(path);
        const auto directory = real_path(parts.directory);
        if (!directory) return cannot_write(original, errno);
        path = *directory == "/" ? "/" + parts.name : *directory + "/" + parts.name;
        const auto target = link_target(path);
        if (!target) return Place{path, false};
        if (is_in_proc(*directory)) return Place{path, true};
        path = target->substr(0, 1) == "/" ? *target : *directory + "/" + *target;
    }
    return cannot_write(original, ELOOP);
}

// Our own descriptor N is doubled, not opened again: a second open of a redirected stdout would write
// over what is already there, and a socket can't be opened at all.
UniqueFd open_in_place(const std::string& path, bool is_fifo) {
    const SplitPath parts = split(path);
    const auto number = parse_unsigned(parts.name);
    if (number && *number <= INT_MAX && real_path("/proc/self/fd") == parts.directory) {
        return UniqueFd(::fcntl(static_cast<int>(*number), F_DUPFD_CLOEXEC, 0));
    }
    std::optional<DeadlySignals> deadly;
    if (is_fifo) deadly.emplace();  // it waits for a reader
    return UniqueFd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY));
}

// 0 or the errno.
int fill(int fd, const OutputFile::Writer& write) {
    FdBuffer buffer(fd);
    std::ostream stream(&buffer);
    write(stream);
    stream.flush();
    return buffer.error();
}

}  // namespace

// A new file beside the final one, with the permissions and owner of the file that it will replace.
// Its destructor removes it unless it was renamed.
class OutputFile::Temporary {
public:
    static tl::expected<std::unique_ptr<Temporary>, int> make(const std::string& final_path,
                                                                std::optional<FileOwner> owner) {
        struct stat old {};
        const bool replaces = ::stat(final_path.c_str(), &old) == 0;
        // A file that we may not write is not replaced either, although rename(2) would.
        if (replaces && ::faccessat(AT_FDCWD, final_path.c_str(), W_OK, AT_EACCESS) != 0)
            return tl::unexpected(errno);

        const SplitPath parts = split(final_path);
        for (int attempt = 0; attempt < 100; ++attempt) {
            // The name is cut so that it fits into NAME_MAX. The kernel applies the umask.
            std::string path = fmt::format("{}/.{}.{}-{}.tmp", parts.directory, parts.name.substr(0, 200),
                                           ::getpid(), attempt);
            UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
            if (!fd && errno == EEXIST) continue;
            if (!fd) return tl::unexpected(errno);
            if (replaces) take_over(fd.get(), old);
            // Only root can; where it fails, as on file systems without owners, the file is root's.
            if (!replaces && owner && ::fchown(fd.get(), owner->uid, owner->gid) != 0) errno = 0;
            return std::unique_ptr<Temporary>(new Temporary(std::move(fd), std::move(path)));
        }
        return tl::unexpected(EEXIST);
    }

    ~Temporary() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

    // 0 or the errno.
    int write(const Writer& writer) {
        const int reason = fill(fd_.get(), writer);
        if (reason != 0) return reason;
        // Some file systems can't (EINVAL); what matters is that ENOSPC and EIO show before the rename.
        if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != EROFS) return errno;
        return ::close(fd_.release()) == 0 ? 0 : errno;
    }

    bool rename_to(const std::string& final_path) {
        if (::rename(path_.c_str(), final_path.c_str()) != 0) return false;
        path_.clear();
        return true;
    }

private:
    Temporary(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    // Only root can give a file away; where it fails the file is ours, as if made anew.
    static void take_over(int fd, const struct stat& old) {
        const bool same_owner = ::fchown(fd, old.st_uid, old.st_gid) == 0;
        ::fchmod(fd, old.st_mode & (same_owner ? 07777U : 0777U));
    }

    UniqueFd fd_;
    std::string path_;
};

OutputFile::OutputFile(std::string path, UniqueFd in_place)
    : path_(std::move(path)), in_place_(std::move(in_place)) {}
OutputFile::OutputFile(std::string path, std::string final_path, std::unique_ptr<Temporary> temporary,
                       std::optional<FileOwner> owner)
    : path_(std::move(path)), final_path_(std::move(final_path)), temporary_(std::move(temporary)), owner_(owner) {}
OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

Result<OutputFile> OutputFile::open(const std::string& path, std::optional<FileOwner> owner) {
    if (path == "-") {
        UniqueFd fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
        if (!fd) return cannot_write("stdout", errno);
        return OutputFile("stdout", std::move(fd));
    }
    if (path.empty()) return cannot_write("a file without a name", ENOENT);
    const auto place = follow_links(path);
    if (!place) return tl::unexpected(place.error());

    struct stat status {};
    const bool exists = ::stat(place->path.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) return cannot_write(path, errno);
    if (exists ? S_ISDIR(status.st_mode) : split(path).name.empty()) return cannot_write(path, EISDIR);
    if (place->is_open_file || (exists && !S_ISREG(status.st_mode))) {
        UniqueFd fd = open_in_place(place->path, exists && S_ISFIFO(status.st_mode));
        if (!fd) return cannot_write(path, errno);
        return OutputFile(path, std::move(fd));
    }

    auto temporary = Temporary::make(place->path, owner);
    if (temporary) return OutputFile(path, place->path, std::move(*temporary), owner);
    // The directory may be closed to us and the file in it open: then it is rewritten as it stands.
    if (exists && ::faccessat(AT_FDCWD, place->path.c_str(), W_OK, AT_EACCESS) == 0) {
        return OutputFile(path, place->path, nullptr, owner);
    }
    return cannot_write(path, temporary.error());
}

Result<OutputFile::Commit> OutputFile::commit(const Writer& write) {
    if (in_place_) {
        const int reason = fill(in_place_.get(), write);
        if (reason == EPIPE) return Commit::kClosedByReader;
        if (reason != 0) return cannot_write(path_, reason);
        return Commit::kWritten;
    }
    if (!temporary_) temporary_ = Temporary::make(final_path_, owner_).value_or(nullptr);
    if (const auto temporary = std::move(temporary_)) {
        const int reason = temporary->write(write);
        if (reason != 0) return cannot_write(path_, reason);
        if (temporary->rename_to(final_path_)) return Commit::kWritten;
    }
    // The name can't be replaced (a file that is itself a mount point, a sticky directory): rewrite it.
    const UniqueFd fd(::open(final_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    const int reason = fd ? fill(fd.get(), write) : errno;
    if (reason != 0) return cannot_write(path_, reason);
    return Commit::kWritten;
}

}  // namespace pyprof
