// SPDX-License-Identifier: Apache-2.0
#include "sample/triage.h"

namespace pyprof {

ThreadTriage::State ThreadTriage::look(Target& target, std::chrono::nanoseconds now,
                                       std::chrono::nanoseconds reuse_within) {
    if (tid_ == 0) return State::kUnknown;
    if (is_known_blocked_) {
        const auto switches = target.read_switch_count(tid_);
        if (!switches) return State::kGone;
        if (*switches == switches_) return State::kStillBlocked;
        is_known_blocked_ = false;
    } else if (reuse_within.count() > 0 && seen_running_.count() >= 0 && now - seen_running_ < reuse_within) {
        return State::kRunning;
    }
    activity_ = target.read_activity(tid_);
    if (activity_.kind == Activity::Kind::kBlocked) {
        // The count must be older than the look that found the thread blocked.
        const auto switches = target.read_switch_count(tid_);
        if (!switches) return State::kGone;
        activity_ = target.read_activity(tid_);
        is_known_blocked_ = activity_.kind == Activity::Kind::kBlocked;
        switches_ = *switches;
    }
    switch (activity_.kind) {
        case Activity::Kind::kRunning:
            seen_running_ = now;
            return State::kRunning;
        case Activity::Kind::kBlocked:
            return State::kBlocked;
        case Activity::Kind::kGone:
            return State::kGone;
        case Activity::Kind::kUnknown:
            break;
    }
    return State::kUnknown;
}

bool ThreadTriage::stayed_blocked(Target& target) const {
    if (!is_known_blocked_) return false;
    const auto switches = target.read_switch_count(tid_);
    return switches && *switches == switches_;
}

}  // namespace pyprof
