// SPDX-License-Identifier: Apache-2.0
//
// Two recordings as one: what is equal is shared, and nothing is lost or counted twice.
#include "profile/merge.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using std::chrono::milliseconds;

namespace {

ResolvedProfile::Frame frame(const char* name, int line) {
    return {FrameKind::kPython, name, "a.py", "/srv/a.py", line};
}

// main -> leaf with `samples` samples.
ResolvedProfile profile_of(const char* leaf, std::uint64_t samples) {
    ResolvedProfile profile;
    profile.facts.python = "3.12.1";
    profile.threads = {{7, "MainThread", true}};
    profile.frames = {frame(leaf, 2), frame("main", 1)};
    profile.nodes = {{0, 0}, {0, 1}, {1, 0}};
    profile.weights = {{0, 2, samples, milliseconds(10)}};
    profile.spans = {{0, 2, 1, milliseconds(10), milliseconds(5)}};
    profile.total_samples = samples;
    profile.figures.samples = samples;
    profile.figures.elapsed = milliseconds(100);
    profile.figures.profiler_cpu = milliseconds(static_cast<int>(samples));
    return profile;
}

}  // namespace

TEST_CASE("merge: equal callers are shared, other leaves stand beside each other") {
    ResolvedProfile whole = profile_of("first", 3);
    merge(whole, profile_of("second", 4), milliseconds(200));
    REQUIRE(whole.nodes.size() == 4);
    CHECK(whole.frames.size() == 3);
    REQUIRE(whole.weights.size() == 2);
    const ResolvedProfile::Node& second = whole.nodes[whole.weights[1].node];
    CHECK(whole.frames[second.frame].name == "second");
    CHECK(second.parent == whole.nodes[whole.weights[0].node].parent);
    CHECK(whole.total_samples == 7);
    CHECK(whole.figures.samples == 7);
    CHECK(whole.figures.elapsed == milliseconds(200));
}

TEST_CASE("merge: the same stack is one node, its threads stay two") {
    ResolvedProfile whole = profile_of("leaf", 3);
    merge(whole, profile_of("leaf", 4), milliseconds(200));
    CHECK(whole.nodes.size() == 3);
    CHECK(whole.threads.size() == 2);
    CHECK(whole.weights[1].thread == 1);
    CHECK(whole.weights[1].node == whole.weights[0].node);
}

TEST_CASE("merge: later spans begin later, and processor time is of both already") {
    ResolvedProfile whole = profile_of("leaf", 3);
    merge(whole, profile_of("leaf", 4), milliseconds(200));
    REQUIRE(whole.spans.size() == 2);
    CHECK(whole.spans[1].begin == milliseconds(205));
    CHECK(whole.figures.profiler_cpu == milliseconds(4));
    CHECK(whole.facts.python == "3.12.1");
    ResolvedProfile other = profile_of("leaf", 1);
    other.facts.python = "3.8.18";
    merge(whole, other, milliseconds(300));
    CHECK(whole.facts.python == "3.12.1, then 3.8.18");
}

TEST_CASE("merge: with nothing is as before") {
    ResolvedProfile whole;
    merge(whole, profile_of("leaf", 4), milliseconds(0));
    CHECK(whole.nodes.size() == 3);
    merge(whole, ResolvedProfile(), milliseconds(0));
    CHECK(whole.total_samples == 4);
    CHECK(whole.nodes.size() == 3);
}
