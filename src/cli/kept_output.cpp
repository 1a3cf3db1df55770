// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_output.h"

#include "cli/messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace pyprof {

void KeptOutput::begin() {
    file_ = UniqueFd(::open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
    if (!file_) return;
    stdout_ = UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    ::dup2(file_.get(), STDOUT_FILENO);
    if (::isatty(STDERR_FILENO) != 1) return;
    stderr_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    ::dup2(file_.get(), STDERR_FILENO);
}

void KeptOutput::end() {
    if (stdout_) ::dup2(stdout_.get(), STDOUT_FILENO);
    if (stderr_) ::dup2(stderr_.get(), STDERR_FILENO);
}

void KeptOutput::show() {
    char buffer[4096];
    while (file_) {
        const ssize_t got = ::pread(file_.get(), buffer, sizeof buffer, shown_);
        if (got <= 0) return;
        shown_ += got;
        if (!print_out(std::string(buffer, static_cast<std::size_t>(got)))) return;
    }
}

}  // namespace pyprof
