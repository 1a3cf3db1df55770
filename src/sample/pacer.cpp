// SPDX-License-Identifier: Apache-2.0
#include "sample/pacer.h"

#include "base/clock.h"

#include <algorithm>

namespace pyprof {

namespace {

// Long sleeps are cut so that a request to stop is seen soon.
constexpr std::chrono::milliseconds kLongestSleep{50};

// The finalizer of splitmix64: even in all its bits for numbers that follow each other.
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

}  // namespace

Pacer::Pacer(double rate_hz, Nanoseconds start, std::uint64_t seed)
    : period_ns_(rate_hz > 0 ? 1e9 / rate_hz : 0), start_(start), last_(start), seed_(mixed(seed)) {}

Pacer::Nanoseconds Pacer::moment_in(std::uint64_t period) const {
    const double fraction = static_cast<double>(mixed(seed_ + period * 0x9E3779B97F4A7C15ULL) >> 11) * 0x1.0p-53;
    return start_ + Nanoseconds{static_cast<std::int64_t>((static_cast<double>(period) + fraction) * period_ns_)};
}

std::uint64_t Pacer::period_at(Nanoseconds now) const {
    return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>((now - start_).count())) / period_ns_);
}

std::uint64_t Pacer::skip(Nanoseconds now) {
    last_ = now;
    if (period_ns_ == 0) return 0;
    const std::uint64_t before = next_period_;
    next_period_ = std::max(next_period_, period_at(now));
    return next_period_ - before;
}

Pacer::Plan Pacer::plan(Nanoseconds now) {
    Plan plan;
    if (period_ns_ == 0) {
        plan.deadline = now;
        plan.weight = std::max(now - last_, Nanoseconds{0});
        last_ = now;
        if (plan.weight > kLongestGap) {  // there is no period: it stands for as much as the one before
            plan.paused = plan.weight - last_weight_;
            plan.weight = last_weight_;
        }
        last_weight_ = plan.weight;
        return plan;
    }
    const std::uint64_t period = std::max(next_period_, period_at(now));
    plan.late = period - next_period_;
    plan.deadline = moment_in(period);
    const auto periods = [&](std::uint64_t count) { return Nanoseconds{static_cast<std::int64_t>(period_ns_ * static_cast<double>(count))}; };
    if (plan.late > kMostPeriods && periods(plan.late) > kLongestGap) plan.paused = periods(plan.late);
    plan.weight = periods(plan.late + 1) - plan.paused;
    next_period_ = period + 1;
    return plan;
}

Pacer::Tick Pacer::wait(const std::atomic<bool>& stop, const std::function<Nanoseconds()>& before_sleep) {
    Nanoseconds now = monotonic_now();
    const Plan chosen = plan(now);
    while (now < chosen.deadline && !stop.load(std::memory_order_relaxed)) {
        const Nanoseconds most = before_sleep ? std::min<Nanoseconds>(before_sleep(), kLongestSleep) : kLongestSleep;
        if (chosen.deadline <= now + most) {
            sleeper_.sleep_until(chosen.deadline, moment_in(next_period_));
        } else {
            Sleeper::sleep_once(now + most);
        }
        now = monotonic_now();
    }
    return {now, chosen.weight, chosen.late, chosen.paused};
}

}  // namespace pyprof
