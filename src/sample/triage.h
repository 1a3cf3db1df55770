// SPDX-License-Identifier: Apache-2.0
//
// Whether a thread runs, by the kernel's account, at the price of one small read. A thread that was seen
// blocked after its switch count was read, and whose count has not moved since, is blocked still and has
// the stack it had: that is proof. Its run time would be none: it moves only at ticks and switches.
#pragma once

#include <pyprof/target.h>

#include <chrono>
#include <cstdint>

namespace pyprof {

class ThreadTriage {
public:
    enum class State : std::uint8_t {
        kRunning,       // on a processor or ready to run
        kBlocked,       // asleep; it may have run since it was last looked at
        kStillBlocked,  // asleep, and has not run since it was last looked at
        kUnknown,       // the kernel does not tell
        kGone,
    };

    explicit ThreadTriage(pid_t tid) : tid_(tid) {}

    // `reuse_within`: a thread seen running so short a time ago is taken to run still (rates above
    // 20 kHz, where a look at every sample would cost more than the sample).
    State look(Target& target, std::chrono::nanoseconds now, std::chrono::nanoseconds reuse_within);
    // Called after the stack of a blocked thread was copied: true when it did not run meanwhile.
    [[nodiscard]] bool stayed_blocked(Target& target) const;

    [[nodiscard]] pid_t tid() const { return tid_; }
    [[nodiscard]] const Activity& activity() const { return activity_; }

private:
    pid_t tid_;
    bool is_known_blocked_ = false;
    std::uint64_t switches_ = 0;
    std::chrono::nanoseconds seen_running_{-1};
    Activity activity_;
};

}  // namespace pyprof
