// SPDX-License-Identifier: Apache-2.0
//
// Signals that wait while an object lives, for what must not be interrupted half-way, and the opposite. Of the calling thread
// alone: a signal to the process goes to another thread that doesn't block it.
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

// While it lives, the signals that end us do so at once, by their default action: around what may wait for ever. A thread of
// the target that we hold meanwhile the kernel lets go; a temporary file would be left.
class DeadlySignals {
public:
    DeadlySignals() {
        sigset_t deadly;
        sigemptyset(&deadly);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&deadly, signal);
        check(::pthread_sigmask(SIG_UNBLOCK, &deadly, &before_) == 0, "signals can't be unblocked");
    }
    ~DeadlySignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    DeadlySignals(const DeadlySignals&) = delete;
    DeadlySignals& operator=(const DeadlySignals&) = delete;

private:
    sigset_t before_{};
};

}  // namespace pyprof
