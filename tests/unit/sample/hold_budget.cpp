// SPDX-License-Identifier: Apache-2.0
#include "sample/hold_budget.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace std::chrono_literals;

namespace {

struct Held {
    HoldBudget::Nanoseconds all{0};
    int stops = 0;
};

// One stop of `length` at each tick that is allowed.
Held hold(HoldBudget& budget, HoldBudget::Nanoseconds from, HoldBudget::Nanoseconds to, HoldBudget::Nanoseconds period,
          HoldBudget::Nanoseconds length) {
    Held held;
    for (auto now = from; now < to; now += period) {
        if (!budget.allows(now)) continue;
        budget.spend(length);
        held.all += length;
        ++held.stops;
    }
    return held;
}

}  // namespace

TEST_CASE("hold budget: short stops at a thousand a second are all allowed") {
    HoldBudget budget;
    CHECK(hold(budget, 0s, 10s, 1ms, 15us).stops == 10'000);
}

TEST_CASE("hold budget: whatever a stop takes, the share is kept") {
    for (const auto length : {30us, 300us, 3000us, 30000us}) {
        HoldBudget budget;
        const Held held = hold(budget, 0s, 20s, 1ms, length);
        CHECK(held.all <= HoldBudget::Nanoseconds(20s) / HoldBudget::kShare + HoldBudget::kMostCredit + length);
        CHECK(held.all >= HoldBudget::Nanoseconds(20s) / HoldBudget::kShare - length);
    }
}

TEST_CASE("hold budget: a long rest saves no more than some milliseconds") {
    HoldBudget budget;
    CHECK(budget.allows(0s));
    CHECK(hold(budget, 1h, 1h + 100ms, 100us, 1ms).all <= HoldBudget::Nanoseconds(100ms) / HoldBudget::kShare + HoldBudget::kMostCredit + 1ms);
}
