// SPDX-License-Identifier: Apache-2.0
//
// First /proc/PID/map_files, which is the mapped file itself, deleted or not, but wants CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE. Then the path below the target's root, then the path below ours, and either only
// if it is the mapped file: by device and inode, or, since overlayfs and btrfs show other numbers in maps
// than in stat, by the same bytes as in the target's memory.
#include "target/mapped_file.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace pyprof {
namespace {

bool is_same_inode(const struct stat& info, const Mapping& mapping) {
    const std::uint64_t device = std::uint64_t{major(info.st_dev)} << 32 | minor(info.st_dev);
    return info.st_ino == mapping.inode && device == mapping.device;
}

// A page of a mapping that the target can't write holds what the file holds.
bool has_same_bytes(int file, const Mapping& mapping, Memory& memory) {
    if (mapping.writable || !mapping.readable || raw(mapping.end) - raw(mapping.start) < 4096) return false;
    std::array<std::byte, 4096> in_file{};
    std::array<std::byte, 4096> in_memory{};
    const ssize_t got =
        ::pread(file, in_file.data(), in_file.size(), static_cast<off_t>(mapping.file_offset));
    // Beyond the end of the file a page holds zeroes, as the buffer does.
    if (got <= 0 || !read_bytes(memory, mapping.start, in_memory)) return false;
    return std::memcmp(in_file.data(), in_memory.data(), in_file.size()) == 0;
}

}  // namespace

OrErrno<UniqueFd> open_mapped_file(int process, const Mapping& mapping, Memory& memory) {
    if (mapping.inode == 0 || mapping.path.empty() || mapping.path.front() != '/')
        return tl::unexpected<int>(ENOENT);
    // Non-blocking: the name may lead to a FIFO or a device by now.
    constexpr int kFlags = O_RDONLY | O_NOCTTY | O_NONBLOCK;
    auto file =
        open_at(process, fmt::format("map_files/{:x}-{:x}", raw(mapping.start), raw(mapping.end)), kFlags);
    if (file) return file;
    int error = file.error();
    for (const std::string& path : {"root" + mapping.path, mapping.path}) {
        file = open_at(process, path, kFlags);
        if (!file) {
            error = file.error();
            continue;
        }
        struct stat info {};
        if (::fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
        if (is_same_inode(info, mapping) || has_same_bytes(file->get(), mapping, memory)) return file;
        error = ESTALE;
    }
    return tl::unexpected<int>(error);
}

}  // namespace pyprof
