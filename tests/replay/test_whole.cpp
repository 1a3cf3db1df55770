// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of every version, replayed whole: a dump of each is what its program said of itself.
#include "replay/told.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

using namespace pyprof;
using namespace pyprof::test;

TEST_CASE("replay: there is a snapshot of each version, of debug and of free-threaded builds") {
    std::set<int> minors;
    std::set<char> kinds;
    for (const Stored& stored : stored_snapshots()) {
        minors.insert(std::stoi(stored.build.substr(2)));
        kinds.insert(stored.build.back());
    }
    for (int minor = 8; minor <= 15; ++minor) CHECK(minors.count(minor) == 1);
    CHECK(kinds.count('d') == 1);
    CHECK(kinds.count('t') == 1);
}

TEST_CASE("replay: a dump of a snapshot is what the program said of itself") {
    for (const Stored& stored : stored_snapshots()) {
        INFO(stored.build);
        SnapshotTarget& target = *stored.target;
        target.inject({});
        auto process = PythonProcess::attach(target);
        REQUIRE(process);
        CHECK(process->version_text().substr(0, stored.python.size()) == stored.python);
        const auto dump = take_dump(target, *process, {});
        REQUIRE(dump);
        CHECK(dump->broken_lists == 0);
        CHECK(dump->unreadable_threads == 0);
        CHECK(dump->threads.size() == stored.threads.size());
        for (const DumpThread& thread : dump->threads) {
            const auto told = stored.threads.find(thread.native_id);
            REQUIRE(told != stored.threads.end());
            CHECK(thread.name == told->second.name);
            CHECK(thread.condition == ThreadCondition::kIdle);
            INFO(text_of(thread.frames));
            CHECK(std::equal(thread.frames.begin(), thread.frames.end(), told->second.frames.begin(), told->second.frames.end(),
                             is_same));
        }
    }
}
