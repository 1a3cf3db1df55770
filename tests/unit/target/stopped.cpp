// SPDX-License-Identifier: Apache-2.0
#include "target/stopped.h"

#include "target/snapshot_target.h"

#include <catch2/catch.hpp>

#include <string_view>

using namespace pyprof;

namespace {

// A process of as many threads as there are letters.
StoppedBy of_threads(std::string_view letters) {
    Snapshot snapshot;
    snapshot.pid = 1;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const pid_t tid = static_cast<pid_t>(i) + 1;
        snapshot.threads.push_back({tid, tid});
        snapshot.thread_answers[tid].state_letter = letters[i];
    }
    SnapshotTarget target(std::move(snapshot));
    return stopped_by(target);
}

}  // namespace

TEST_CASE("stopped: a process is when every thread of it that lives is") {
    CHECK(of_threads("TT") == StoppedBy::kSignal);
    CHECK(of_threads("ZTXT") == StoppedBy::kSignal);
    CHECK(of_threads("tt") == StoppedBy::kTracer);
    CHECK(of_threads("tT") == StoppedBy::kSignal);
    for (const char* letters : {"", "R", "S", "TR", "tS", "DT", "Z"}) CHECK(of_threads(letters) == StoppedBy::kNobody);
    CHECK(remedy_of(StoppedBy::kSignal, 7) == "kill -CONT 7 wakes it");
}
