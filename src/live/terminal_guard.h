// SPDX-License-Identifier: Apache-2.0
//
// Puts the terminal's mode and screen back when we die of a bug of our own (SIGSEGV, SIGABRT and the like) or of a signal
// that nobody waits for: nothing else can do it then. Uses nothing but what signal-safety(7) allows.
#pragma once

#include <termios.h>

#include <csignal>
#include <iterator>

namespace pyprof {

class TerminalGuard {
public:
    TerminalGuard();  // the mode as it is now is what is put back
    ~TerminalGuard();
    TerminalGuard(const TerminalGuard&) = delete;
    TerminalGuard& operator=(const TerminalGuard&) = delete;
    [[nodiscard]] const termios& mode() const { return mode_; }
    void put_back() const;

private:
    termios mode_{};
    static constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS,
                                     SIGQUIT, SIGALRM, SIGUSR2, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF};
    struct sigaction before_[std::size(kFatal)] {};
};

// Leaves the other screen, shows the cursor, lets go of the mouse, plain style.
extern const char kLeaveScreen[];

}  // namespace pyprof
