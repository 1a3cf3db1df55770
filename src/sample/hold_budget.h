// SPDX-License-Identifier: Apache-2.0
//
// For how much of its time a recording with native frames may hold the program: a fiftieth (2 %), counted over all of
// its threads. A tick that would come on top of that is left out whole, so that no thread is sampled more
// readily than another; the next sample stands for its time. What is saved while the program sleeps counts
// for a few milliseconds only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace pyprof {

class HoldBudget {
public:
    using Nanoseconds = std::chrono::nanoseconds;

    // Whether threads may be stopped at the moment `now`, which never goes back. What a tick takes too much is owed by
    // the next ones.
    [[nodiscard]] bool allows(Nanoseconds now) {
        if (has_begun_) credit_ = std::min(kMostCredit, credit_ + (now - last_) / kShare);
        has_begun_ = true;
        last_ = now;
        return credit_ > Nanoseconds{0};
    }
    void spend(Nanoseconds held) { credit_ -= held; }

    static constexpr std::int64_t kShare = 50;
    static constexpr Nanoseconds kMostCredit = std::chrono::milliseconds(5);

private:
    Nanoseconds credit_ = kMostCredit;
    Nanoseconds last_{0};
    bool has_begun_ = false;
};

}  // namespace pyprof
