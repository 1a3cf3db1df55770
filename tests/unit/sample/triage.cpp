// SPDX-License-Identifier: Apache-2.0
//
// Whether a thread runs, and when its stack may be taken to be the one it had.
#include "sample/triage.h"

#include "support/fake_target.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;
using State = ThreadTriage::State;

namespace {

constexpr pid_t kTid = 200;

struct Triage {
    Triage() { target.thread(kTid); }
    State look(std::chrono::nanoseconds reuse_within = 0ns) { return triage.look(target, now, reuse_within); }

    FakeTarget target{"/usr/bin/python3.12"};
    ThreadTriage triage{kTid};
    std::chrono::nanoseconds now = 1s;
};

}  // namespace

TEST_CASE("triage: a thread runs, blocks, stays blocked, and runs again") {
    Triage fixture;
    CHECK(fixture.look() == State::kRunning);
    CHECK(fixture.look() == State::kRunning);
    fixture.target.block(kTid);
    CHECK(fixture.look() == State::kBlocked);
    CHECK(fixture.look() == State::kStillBlocked);
    CHECK(fixture.look() == State::kStillBlocked);
    fixture.target.wake(kTid);
    CHECK(fixture.look() == State::kRunning);
}

TEST_CASE("triage: a thread that ran between two looks is not still blocked") {
    Triage fixture;
    fixture.target.block(kTid);
    CHECK(fixture.look() == State::kBlocked);
    fixture.target.wake(kTid);
    fixture.target.block(kTid);
    CHECK(fixture.look() == State::kBlocked);
    CHECK(fixture.look() == State::kStillBlocked);
}

TEST_CASE("triage: a thread that is still blocked costs one look") {
    Triage fixture;
    fixture.target.block(kTid);
    (void)fixture.look();
    const std::size_t before = fixture.target.looks();
    for (int i = 0; i < 10; ++i) CHECK(fixture.look() == State::kStillBlocked);
    CHECK(fixture.target.looks() - before == 10);
}

TEST_CASE("triage: only what stayed blocked while it was copied is vouched for") {
    Triage fixture;
    CHECK_FALSE(fixture.triage.stayed_blocked(fixture.target));
    fixture.target.block(kTid);
    (void)fixture.look();
    CHECK(fixture.triage.stayed_blocked(fixture.target));
    fixture.target.wake(kTid);
    fixture.target.block(kTid);
    CHECK_FALSE(fixture.triage.stayed_blocked(fixture.target));
    fixture.target.end_thread(kTid);
    CHECK_FALSE(fixture.triage.stayed_blocked(fixture.target));
}

// The kernel says that it sleeps, and before the count is read it has run and sleeps elsewhere. With a count
// that is older than the look, that can't be taken for one sleep.
TEST_CASE("triage: the count is older than the look that found the thread blocked") {
    class RunsBetween final : public Target {
    public:
        Activity read_activity(pid_t) override {
            ++looks;
            // Awake at the look after the count: it must not be known as blocked.
            return {looks == 1 ? Activity::Kind::kBlocked : Activity::Kind::kRunning, 0, {}, {}, {}};
        }
        std::optional<std::uint64_t> read_switch_count(pid_t) override { return 5; }
        pid_t pid() const override { return 1; }
        Memory& memory() override { return memory_; }
        Result<ProcessFacts> read_facts() override { return ProcessFacts{}; }
        Result<std::vector<Mapping>> read_mappings() override { return std::vector<Mapping>{}; }
        Result<std::unique_ptr<ModuleFile>> open_module(const Mapping&) override { return nullptr; }
        Result<std::vector<ThreadId>> read_threads() override { return std::vector<ThreadId>{}; }
        char read_state_letter(pid_t) override { return 'S'; }
        std::string read_thread_name(pid_t) override { return {}; }
        void forget_thread(pid_t) override {}
        bool has_ended() override { return false; }
        Result<std::unique_ptr<Stop>> stop() override { return std::make_unique<Stop>(); }
        int looks = 0;

    private:
        FakeMemory memory_;
    };
    RunsBetween target;
    ThreadTriage triage(kTid);
    CHECK(triage.look(target, 1s, 0ns) == State::kRunning);
    CHECK_FALSE(triage.stayed_blocked(target));
}

TEST_CASE("triage: at high rates a thread that ran a moment ago is taken to run still, for so long and no longer") {
    Triage fixture;
    CHECK(fixture.look(50us) == State::kRunning);
    const std::size_t before = fixture.target.looks();
    fixture.target.block(kTid);
    fixture.now += 40us;
    CHECK(fixture.look(50us) == State::kRunning);
    CHECK(fixture.target.looks() == before);
    fixture.now += 20us;
    CHECK(fixture.look(50us) == State::kBlocked);
    fixture.now += 1us;
    CHECK(fixture.look(50us) == State::kStillBlocked);
}

TEST_CASE("triage: a thread that is gone, or of which nothing is known") {
    Triage fixture;
    fixture.target.thread(kTid).activity.kind = Activity::Kind::kUnknown;
    CHECK(fixture.look() == State::kUnknown);
    fixture.target.block(kTid);
    (void)fixture.look();
    fixture.target.end_thread(kTid);
    CHECK(fixture.look() == State::kGone);
    ThreadTriage without_tid(0);
    CHECK(without_tid.look(fixture.target, 1s, 0ns) == State::kUnknown);
}
