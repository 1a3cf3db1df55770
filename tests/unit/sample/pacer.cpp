// SPDX-License-Identifier: Apache-2.0
//
// The moments of sampling on a clock of our own: one in each period, none caught up with, no program in
// step with them.
#include "sample/pacer.h"

#include "base/clock.h"
#include "sample/sleeper.h"
#include "sample/stop_budget.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>

#include <cmath>
#include <random>

using namespace pyprof;
using namespace std::chrono_literals;

namespace {

using Nanoseconds = Pacer::Nanoseconds;
constexpr Nanoseconds kStart = 1'000'000s;  // as CLOCK_MONOTONIC may be

struct Moment {
    Nanoseconds when{0};  // since the start
    Nanoseconds weight{0};
    std::uint64_t late = 0;
};

// Sleeps exactly as long as it is told, then works for `work(i)`.
template <class Work>
std::vector<Moment> run(double rate_hz, int ticks, std::uint64_t seed, Work work) {
    Pacer pacer(rate_hz, kStart, seed);
    std::vector<Moment> moments;
    Nanoseconds now = kStart;
    for (int i = 0; i < ticks; ++i) {
        const Pacer::Plan plan = pacer.plan(now);
        now = std::max(now, plan.deadline);
        moments.push_back({now - kStart, plan.weight, plan.late});
        now += work(i);
    }
    return moments;
}

}  // namespace

TEST_CASE("pacer: exactly one moment lies in each period, whatever the rate") {
    for (const double rate : {0.5, 1.0, 100.0, 997.0, 4'000.0, 33'333.3}) {
        const auto moments = run(rate, 5'000, 42, [](int) { return 0ns; });
        const double period = 1e9 / rate;
        for (std::size_t i = 0; i < moments.size(); ++i) {
            const double at = static_cast<double>(moments[i].when.count()) / period;
            REQUIRE(at >= static_cast<double>(i) - 1e-6);
            REQUIRE(at <= static_cast<double>(i + 1) + 1e-6);
            REQUIRE(moments[i].late == 0);
        }
    }
}

TEST_CASE("pacer: moments are spread evenly over their periods") {
    const auto moments = run(1'000, 100'000, 7, [](int) { return 0ns; });
    std::vector<double> counts(20);
    for (const Moment& moment : moments) {
        const auto within = static_cast<std::size_t>(moment.when.count() % 1'000'000);
        ++counts[within * counts.size() / 1'000'000];
    }
    double chi_square = 0;
    const double expected = 100'000.0 / static_cast<double>(counts.size());
    for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    CHECK(chi_square < 60);  // 19 degrees of freedom: exceeded by chance in 4 of a million seeds, and the seed is fixed
}

TEST_CASE("pacer: the same seed gives the same moments, another seed others") {
    const auto a = run(100, 50, 1, [](int) { return 0ns; });
    const auto b = run(100, 50, 1, [](int) { return 0ns; });
    const auto c = run(100, 50, 3, [](int) { return 0ns; });
    int equal = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].when == b[i].when);
        equal += a[i].when == c[i].when ? 1 : 0;
    }
    CHECK(equal < 3);
}

TEST_CASE("pacer: what is late is dropped and counted, never caught up with") {
    // Every tenth sample takes seven periods.
    const auto moments = run(1'000, 1'000, 5, [](int i) { return i % 10 == 9 ? Nanoseconds(7ms) : Nanoseconds(0); });
    std::uint64_t late = 0;
    for (std::size_t i = 1; i < moments.size(); ++i) {
        late += moments[i].late;
        const std::int64_t period = moments[i].when.count() / 1'000'000;
        CHECK(period > moments[i - 1].when.count() / 1'000'000);  // never two in one period
    }
    CHECK(late >= 99 * 5);
    CHECK(late <= 99 * 7);
}

TEST_CASE("pacer: weights sum to the time that passed, late or not") {
    for (const auto work : {Nanoseconds(0), Nanoseconds(300us), Nanoseconds(2'500us)}) {
        const auto moments = run(1'000, 4'000, 11, [&](int) { return work; });
        Nanoseconds sum{0};
        for (const Moment& moment : moments) sum += moment.weight;
        CHECK(std::chrono::abs(sum - moments.back().when) <= 1ms);
    }
}

TEST_CASE("pacer: for a gap of more than a second and twenty periods no sample stands, and it is told") {
    struct Case {
        double rate_hz;
        Nanoseconds gap;
        bool is_paused;
    };
    for (const Case& given : {Case{1'000, 900ms, false}, Case{1'000, 1'100ms, true}, Case{100, 60s, true}, Case{2, 9s, false}, Case{2, 12s, true}}) {
        INFO(given.rate_hz << " Hz, " << given.gap.count());
        const auto period = Nanoseconds(static_cast<std::int64_t>(1e9 / given.rate_hz));
        Pacer pacer(given.rate_hz, kStart, 9);
        Nanoseconds now = kStart;
        Nanoseconds weights{0};
        Nanoseconds paused{0};
        std::uint64_t late = 0;
        for (int i = 0; i < 10; ++i) {
            const Pacer::Plan plan = pacer.plan(now);
            now = std::max(now, plan.deadline);
            if (i == 4) now += given.gap;  // in its sleep
            weights += plan.weight;
            paused += plan.paused;
            late += plan.late;
            CHECK(plan.weight <= Pacer::kLongestGap * (given.rate_hz < 20 ? 20 / given.rate_hz : 1) + period);
        }
        CHECK((paused > 0ns) == given.is_paused);
        if (given.is_paused) CHECK(std::chrono::abs(paused - given.gap) <= 2 * period);
        CHECK(std::chrono::abs(weights + paused - (now - kStart)) <= period);
        CHECK(static_cast<std::int64_t>(late) >= given.gap / period - 1);
    }
    Pacer fastest(0, kStart, 9);
    (void)fastest.plan(kStart + 50us);
    const Pacer::Plan plan = fastest.plan(kStart + 50us + 60s);
    CHECK(plan.weight == 50us);
    CHECK(plan.paused == 60s - 50us);
    CHECK(fastest.plan(kStart + 50us + 60s + 70us).weight == 70us);
}

TEST_CASE("pacer: a sample that takes longer than the period halves the rate, no more") {
    const auto moments = run(1'000, 1'000, 13, [](int) { return Nanoseconds(1'100us); });
    const double per_second = 1'000 / std::chrono::duration<double>(moments.back().when).count();
    CHECK(per_second > 450);
    CHECK(per_second < 1'000);
}

TEST_CASE("pacer: as fast as can be, each sample stands for the time since the last") {
    const auto moments = run(0, 100, 1, [](int i) { return Nanoseconds(i * 1us); });
    Nanoseconds sum{0};
    for (const Moment& moment : moments) {
        CHECK(moment.late == 0);
        sum += moment.weight;
    }
    CHECK(sum == moments.back().when);
}

TEST_CASE("pacer: a clock that has not moved, or stands before the start, does no harm") {
    Pacer pacer(100, kStart, 1);
    CHECK(pacer.plan(kStart - 5s).deadline >= kStart);
    for (int i = 1; i < 10; ++i) {
        const Pacer::Plan plan = pacer.plan(kStart);
        CHECK(plan.deadline >= kStart + i * 10ms);
        CHECK(plan.late == 0);
    }
}

TEST_CASE("pacer: a program that works in step with the period is read with its true shares") {
    // It works for a fraction of each period (or of a multiple, or a divisor of it) and sleeps for the rest.
    for (const double cycle : {0.5, 1.0, 2.0, 3.0}) {
        for (const double share : {0.1, 0.3, 0.7}) {
            const auto moments = run(1'000, 20'000, 17, [](int) { return 0ns; });
            int hits = 0;
            for (const Moment& moment : moments) {
                const double phase = std::fmod(static_cast<double>(moment.when.count()) / (1e6 * cycle), 1.0);
                hits += phase < share ? 1 : 0;
            }
            INFO("cycle " << cycle << ", share " << share);
            CHECK(hits / 20'000.0 == Approx(share).margin(0.02));  // 6 standard errors, and the seed is fixed
        }
    }
}

TEST_CASE("pacer: waiting ends when it is told to stop") {
    Pacer pacer(0.001, Nanoseconds(0), 1);  // the clock stands far beyond: the current period lasts 1000 s
    std::atomic<bool> stop{true};
    CHECK(pacer.wait(stop).when.count() > 0);
}

TEST_CASE("stop budget: stops take a thousandth of the time that passed, and no more") {
    StopBudget budget;
    CHECK_FALSE(budget.allows(0ns));
    CHECK_FALSE(budget.allows(49ms));
    CHECK(budget.allows(50ms));
    std::mt19937 random(3);
    Nanoseconds elapsed{0};
    while (elapsed < 20s) {
        elapsed += 250us;
        if (budget.allows(elapsed)) budget.spend(Nanoseconds(20'000 + random() % 80'000));
        REQUIRE(budget.spent() <= elapsed / 1000 + budget.longest());
        REQUIRE(budget.longest() <= 100us);
    }
    CHECK(budget.spent() > 18ms);  // and it is used
    CHECK(budget.stops() > 200);
}

TEST_CASE("stop budget: a stop that took long is paid back before the next") {
    StopBudget budget;
    REQUIRE(budget.allows(1s));
    budget.spend(5ms);
    CHECK_FALSE(budget.allows(5s));
    CHECK_FALSE(budget.allows(9s));
    CHECK(budget.allows(10s));
}

TEST_CASE("pacer: periods in which we did not look are dropped, and no sample stands for them") {
    Pacer pacer(100, kStart, 3);
    (void)pacer.plan(kStart);
    CHECK(pacer.skip(kStart + 60s) == 5'999);
    const Pacer::Plan next = pacer.plan(kStart + 60s);
    CHECK(next.late == 0);
    CHECK(next.weight == 10ms);
    CHECK(next.deadline - kStart >= 60s);
    Pacer fastest(0, kStart, 3);
    CHECK(fastest.skip(kStart + 60s) == 0);
    CHECK(fastest.plan(kStart + 60s + 1ms).weight == 1ms);
}

TEST_CASE("sleeper: it wakes at the moment that is named, whatever was named before") {
    const auto sleeps = [](Sleeper& sleeper, Nanoseconds until, Nanoseconds after) {
        while (monotonic_now() < until) sleeper.sleep_until(until, after);  // a signal may wake it
    };
    Sleeper sleeper;
    const Nanoseconds start = monotonic_now();
    std::mt19937 random(5);
    Nanoseconds next = start;
    for (int i = 0; i < 300; ++i) {
        const Nanoseconds until = random() % 4 == 0 ? monotonic_now() + 30us : next;  // not always what was announced
        next = std::max(until, monotonic_now()) + Nanoseconds(random() % 40'000);
        sleeps(sleeper, until, next);
        if (random() % 8 == 0) sleeper.sleep_until(until, next);  // which has passed
        if (random() % 8 == 0) Sleeper::sleep_once(next);         // and its timer has fired unseen
    }
    CHECK(monotonic_now() >= next - 40us);
}

TEST_CASE("sleeper: without descriptors it sleeps all the same") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit none{0, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    Sleeper sleeper;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Nanoseconds until = monotonic_now() + 50us;
    while (monotonic_now() < until) sleeper.sleep_until(until, until + 1us);
    CHECK(monotonic_now() >= until);
}
