// SPDX-License-Identifier: Apache-2.0
//
// Adding samples up: weights by thread and stack, spans in the order of time.
#include <pyprof/profile.h>

#include <catch2/catch.hpp>

using namespace pyprof;
using std::chrono::milliseconds;

namespace {

struct Recording {
    std::shared_ptr<StackTable> table = std::make_shared<StackTable>();
    Profile profile{table, true};
    ThreadIndex main = profile.add_thread({1, "MainThread", true});
    ThreadIndex worker = profile.add_thread({2, "worker", false});

    StackId stack(const char* name) {
        const FrameId frame =
            table->intern_frame({FrameKind::kPython, table->intern_string(name), kNoString, 1});
        return table->intern_child(kRootStack, frame, kRootPath);
    }
};

}  // namespace

TEST_CASE("profile: is empty until a sample comes") {
    Recording recording;
    CHECK(recording.profile.empty());
    recording.profile.add(recording.main, recording.stack("f"), 1, milliseconds(10), milliseconds(10));
    CHECK_FALSE(recording.profile.empty());
    CHECK(recording.profile.total_samples() == 1);
}

TEST_CASE("profile: equal threads and stacks add up, others stay apart") {
    Recording recording;
    const StackId f = recording.stack("f");
    const StackId g = recording.stack("g");
    recording.profile.add(recording.main, f, 1, milliseconds(10), milliseconds(10));
    recording.profile.add(recording.worker, f, 1, milliseconds(10), milliseconds(10));
    recording.profile.add(recording.main, g, 1, milliseconds(12), milliseconds(22));
    recording.profile.add(recording.main, f, 3, milliseconds(30), milliseconds(52));

    const auto& weights = recording.profile.weights();
    REQUIRE(weights.size() == 3);
    CHECK(weights[0].thread == recording.main);
    CHECK(weights[0].stack == f);
    CHECK(weights[0].samples == 4);
    CHECK(weights[0].time == milliseconds(40));
    CHECK(weights[1].thread == recording.worker);
    CHECK(weights[1].samples == 1);
    CHECK(weights[2].stack == g);
    CHECK(weights[2].time == milliseconds(12));
    CHECK(recording.profile.total_samples() == 6);
}

TEST_CASE("profile: spans of a thread join over equal samples, whatever other threads do") {
    Recording recording;
    const StackId f = recording.stack("f");
    const StackId g = recording.stack("g");
    for (int tick = 1; tick <= 3; ++tick) {
        recording.profile.add(recording.main, f, 1, milliseconds(10), milliseconds(10 * tick));
        recording.profile.add(recording.worker, g, 1, milliseconds(10), milliseconds(10 * tick));
    }
    recording.profile.add(recording.main, g, 1, milliseconds(10), milliseconds(40));

    const auto& spans = recording.profile.spans();
    REQUIRE(spans.size() == 3);
    CHECK(spans[0].thread == recording.main);
    CHECK(spans[0].samples == 3);
    CHECK(spans[0].begin == milliseconds(0));
    CHECK(spans[0].weight == milliseconds(30));
    CHECK(spans[1].thread == recording.worker);
    CHECK(spans[1].samples == 3);
    CHECK(spans[2].stack == g);
    CHECK(spans[2].begin == milliseconds(30));
}

TEST_CASE("profile: a hole in time ends a span, jitter does not") {
    Recording recording;
    const StackId f = recording.stack("f");
    recording.profile.add(recording.main, f, 1, milliseconds(10), milliseconds(10));
    recording.profile.add(recording.main, f, 1, milliseconds(10), milliseconds(24));   // 4 ms late
    recording.profile.add(recording.main, f, 1, milliseconds(10), milliseconds(100));  // slept

    const auto& spans = recording.profile.spans();
    REQUIRE(spans.size() == 2);
    CHECK(spans[0].samples == 2);
    CHECK(spans[1].begin == milliseconds(90));
    CHECK(spans[1].weight == milliseconds(10));
}

TEST_CASE("profile: too many spans are given up whole, sums stay") {
    Recording recording;
    const StackId f = recording.stack("f");
    const StackId g = recording.stack("g");
    for (int i = 1; i <= 2'000'000; ++i) {
        recording.profile.add(recording.main, i % 2 == 0 ? f : g, 1, milliseconds(1), milliseconds(i));
    }
    CHECK(recording.profile.spans().size() == 2'000'000);
    recording.profile.add(recording.main, g, 1, milliseconds(1), milliseconds(2'000'002));
    recording.profile.add(recording.main, f, 1, milliseconds(1), milliseconds(2'000'003));
    CHECK(recording.profile.spans().empty());
    CHECK(recording.profile.weights()[0].samples == 1'000'001);
    CHECK(recording.profile.total_samples() == 2'000'002);
}

TEST_CASE("profile: keeps no spans unless asked to") {
    auto table = std::make_shared<StackTable>();
    Profile profile(table);
    const ThreadIndex thread = profile.add_thread({});
    profile.add(thread, kRootStack, 1, milliseconds(1), milliseconds(1));
    CHECK(profile.spans().empty());
    CHECK(profile.weights().size() == 1);
}
