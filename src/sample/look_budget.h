// SPDX-License-Identifier: Apache-2.0
//
// How often a thread may be copied a second time at once, to prove a path that its sample did not prove. A look
// costs a system call, so there is one for every eighth sample; looks that prove something pay for more of them,
// which is what a program needs that is just starting.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pyprof {

class LookBudget {
public:
    [[nodiscard]] bool allows() const { return credit_ >= kPrice; }
    void spend() {
        credit_ -= kPrice;
        ++looks_;
    }
    void note_sample() { credit_ = std::min(credit_ + 1, kMost); }
    [[nodiscard]] std::uint64_t looks() const { return looks_; }
    void note_proof() { credit_ = std::min(credit_ + kReward, kMost); }

private:
    static constexpr std::int32_t kPrice = 8;
    static constexpr std::int32_t kReward = 3 * kPrice;
    static constexpr std::int32_t kMost = 512 * kPrice;

    std::int32_t credit_ = kMost;
    std::uint64_t looks_ = 0;
};

}  // namespace pyprof
