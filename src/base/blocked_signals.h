// SPDX-License-Identifier: Apache-2.0
//
// Signals that wait while an object lives, for what must not be interrupted half-way, and the opposite. Of the calling thread
// alone: a signal to the process goes to another thread that doesn't block it.
#pragma once

#include <pyprof/error.h>

#include <csignal>
#include <initializer_list>

namespace pyprof {

inline sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) sigaddset(&set, signal);
    return set;
}

// What both are: a mask that is changed while the object lives. `how` as in pthread_sigmask(3).
class ChangedSignalMask {
public:
    ChangedSignalMask(const ChangedSignalMask&) = delete;
    ChangedSignalMask& operator=(const ChangedSignalMask&) = delete;

protected:
    ChangedSignalMask(int how, std::initializer_list<int> signals) {
        const sigset_t changed = set_of(signals);
        check(::pthread_sigmask(how, &changed, &before_) == 0, "the mask of signals can't be changed");
    }
    ~ChangedSignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

struct BlockedSignals : ChangedSignalMask {
    explicit BlockedSignals(std::initializer_list<int> signals) : ChangedSignalMask(SIG_BLOCK, signals) {}
};

// While it lives, the signals that end us do so at once, by their default action: around what may wait for ever. A thread of
// the target that we hold meanwhile the kernel lets go; a temporary file would be left.
struct DeadlySignals : ChangedSignalMask {
    DeadlySignals() : ChangedSignalMask(SIG_UNBLOCK, {SIGINT, SIGTERM, SIGHUP}) {}
};

}  // namespace pyprof
