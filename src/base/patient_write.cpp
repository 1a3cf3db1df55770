// SPDX-License-Identifier: Apache-2.0
#include "base/patient_write.h"

#include "base/blocked_signals.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace pyprof {

namespace {

bool has_a_reader(int fd) {
    struct stat info {};
    return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

void wait_for_room(int fd) {
    pollfd waiting{fd, POLLOUT, 0};
    if (::poll(&waiting, 1, 0) != 0) return;
    const DeadlySignals deadly;
    ::poll(&waiting, 1, -1);
}

}  // namespace

int write_all(int fd, std::string_view bytes) {
    // A pipe that has room has it for so many bytes: such a write does not wait (pipe(7)).
    const bool may_wait = has_a_reader(fd);
    const std::size_t most = may_wait ? PIPE_BUF : bytes.size();
    while (!bytes.empty()) {
        if (may_wait) wait_for_room(fd);
        const ssize_t written = ::write(fd, bytes.data(), std::min(most, bytes.size()));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EAGAIN) {  // whoever gave us the descriptor made it so
            wait_for_room(fd);
            continue;
        }
        if (written <= 0) return written < 0 ? errno : EIO;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
}

}  // namespace pyprof
