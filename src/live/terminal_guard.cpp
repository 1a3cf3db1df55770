// SPDX-License-Identifier: Apache-2.0
#include "live/terminal_guard.h"

#include <unistd.h>

#include <cstring>

namespace pyprof {

const char kLeaveScreen[] = "\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?25h\x1b[?1049l";

namespace {

termios mode_to_put_back;

void on_fatal(int signal) {
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kLeaveScreen, std::strlen(kLeaveScreen));
    ::tcsetattr(STDIN_FILENO, TCSANOW, &mode_to_put_back);
    ::raise(signal);  // the action was set back: now it ends us
}

}  // namespace

TerminalGuard::TerminalGuard() {
    ::tcgetattr(STDIN_FILENO, &mode_);
    mode_to_put_back = mode_;
    struct sigaction action {};
    action.sa_handler = on_fatal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (std::size_t i = 0; i < std::size(kFatal); ++i) ::sigaction(kFatal[i], &action, &before_[i]);
}

TerminalGuard::~TerminalGuard() {
    put_back();
    for (std::size_t i = 0; i < std::size(kFatal); ++i) ::sigaction(kFatal[i], &before_[i], nullptr);
}

void TerminalGuard::put_back() const { ::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_); }

}  // namespace pyprof
