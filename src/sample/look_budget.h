// SPDX-License-Identifier: Apache-2.0
//
// How often a thread may be copied a second time at once, to prove a path that its sample did not prove. A look
// costs a system call, so there is one for every eighth sample; looks that prove something pay for more of them,
// which is what a program needs that is just starting. Where they have long proved nothing, there is little left to
// prove: they get rarer, until something is proved again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pyprof {

class LookBudget {
public:
    [[nodiscard]] bool allows() const { return credit_ >= price_; }
    void spend() {
        credit_ -= price_;
        ++looks_;
        if (++in_vain_ % kInVain == 0) price_ = std::min(price_ * 2, kHighestPrice);
    }
    void note_sample() { credit_ = std::min(credit_ + 1, kMost); }
    [[nodiscard]] std::uint64_t looks() const { return looks_; }
    void note_proof() {
        credit_ = std::min(credit_ + kReward, kMost);
        price_ = kPrice;
        in_vain_ = 0;
    }

private:
    static constexpr std::int32_t kPrice = 8;
    static constexpr std::int32_t kReward = 3 * kPrice;
    static constexpr std::int32_t kMost = 512 * kPrice;
    static constexpr std::int32_t kHighestPrice = 8 * kPrice;
    static constexpr std::uint32_t kInVain = 256;

    std::int32_t credit_ = kMost;
    std::int32_t price_ = kPrice;
    std::uint32_t in_vain_ = 0;  // looks since the last proof
    std::uint64_t looks_ = 0;
};

}  // namespace pyprof
