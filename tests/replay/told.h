// SPDX-License-Identifier: Apache-2.0
//
// The stored snapshots, and what each program said of itself at that moment: the truth that a replay is
// compared with. Both are written by tests/replay/refresh.
#pragma once

#include "sample/dump.h"
#include "target/snapshot_target.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pyprof::test {

struct ToldThread {
    std::string name;
    std::vector<DumpFrame> frames;  // leaf first
};

struct Stored {
    std::string build;  // "3.13.15t"
    std::unique_ptr<SnapshotTarget> target;
    std::vector<Address> pages;  // of its memory
    std::string python;
    std::map<std::uint64_t, ToldThread> threads;  // by native id
};

// All of tests/replay, in the order of their names; a test fails where one can't be read.
const std::vector<Stored>& stored_snapshots();

bool is_marker(const DumpFrame& frame);
// Same function, file and line.
bool is_same(const DumpFrame& found, const DumpFrame& told);
// Whether these frames, markers left out, stand in `told` in this order, perhaps with others between them.
bool is_part_of(const std::vector<DumpFrame>& frames, const std::vector<DumpFrame>& told);
std::string text_of(const std::vector<DumpFrame>& frames);

}  // namespace pyprof::test
