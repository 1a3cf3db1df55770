// SPDX-License-Identifier: Apache-2.0
//
// Signals that wait while an object lives, for what must not be interrupted half-way. Of the calling thread alone: a
// signal to the process goes to another thread that doesn't block it.
#pragma once

#include <pyprof/error.h>

#include <csignal>
#include <initializer_list>

namespace pyprof {

class BlockedSignals {
public:
    explicit BlockedSignals(std::initializer_list<int> signals) {
        sigset_t wanted;
        sigemptyset(&wanted);
        for (const int signal : signals) sigaddset(&wanted, signal);
        check(::pthread_sigmask(SIG_BLOCK, &wanted, &before_) == 0, "signals can't be blocked");
    }
    ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    sigset_t before_{};
};

}  // namespace pyprof
