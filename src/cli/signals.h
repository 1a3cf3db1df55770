// SPDX-License-Identifier: Apache-2.0
//
// Signals as something to wait for beside other things: they are blocked in every thread of ours from
// the start and read from a descriptor, so that nothing is ever interrupted half-way.
#pragma once

#include "base/unique_fd.h"

#include <csignal>
#include <initializer_list>
#include <optional>

namespace pyprof {

class Signals {
public:
    // Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1 and those given; before any thread is made.
    explicit Signals(std::initializer_list<int> more = {});
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::optional<int> take();
    // Stops us as SIGTSTP, when it is one of those given, does by itself: not at all where nobody could let us go on (an
    // orphaned process group) or where whoever started us ignores it. Returns when we go on.
    static void stop_process();
    // The mask as it was: what a launched program is to find.
    [[nodiscard]] const sigset_t& original_mask() const { return original_; }

private:
    sigset_t original_{};
    UniqueFd fd_;
};

}  // namespace pyprof
