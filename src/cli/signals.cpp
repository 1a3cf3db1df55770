// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.h"

#include <pyprof/error.h>

#include "base/blocked_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace pyprof {

Signals::Signals(std::initializer_list<int> more) {
    sigset_t wanted = set_of({SIGINT, SIGTERM, SIGHUP, SIGUSR1});
    for (const int signal : more) sigaddset(&wanted, signal);
    sigset_t blocked = wanted;
    // It tells the sampler's thread of stops, which takes it there and would sleep on if another thread did.
    sigaddset(&blocked, SIGCHLD);
    check(::pthread_sigmask(SIG_BLOCK, &blocked, &original_) == 0, "signals can't be blocked");
    fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    check(fd_.get() >= 0, "no signalfd");
}

Signals::~Signals() { ::pthread_sigmask(SIG_SETMASK, &original_, nullptr); }

void Signals::stop_process() {
    const sigset_t stop = set_of({SIGTSTP});
    ::raise(SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // here
    ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

std::optional<int> Signals::take() {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

}  // namespace pyprof
