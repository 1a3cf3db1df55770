// SPDX-License-Identifier: Apache-2.0
//
// Native frames and Python frames of one thread at one moment, put in order. Each run of the interpreter's loop keeps
// an object on the C stack (from 3.11 on), and that object lies in exactly one native frame: the loop's own. So
// Python frames are placed by address, without a symbol. Up to 3.10 each Python frame has a loop of its own and
// they are counted from the root. A pure function: it reads nothing and drops no Python frame.
#pragma once

#include "native/unwinder.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pyprof {

// Python frames that one run of the loop executes, one calling the other without C code between.
struct PythonRun {
    Address entry{};          // its object on the C stack; null: not known (up to 3.10)
    std::uint32_t frames = 0;
};

struct MergedFrame {
    enum class Kind : std::uint8_t { kPython, kNative, kLost };  // kLost: native frames are missing here
    Kind kind = Kind::kNative;
    std::uint32_t index = 0;  // in its list, leaf first
    bool runs_python = false; // a native frame: the loop that executes the Python frames above it
    friend bool operator==(const MergedFrame&, const MergedFrame&) = default;
};

struct Merged {
    std::vector<MergedFrame> frames;  // leaf first
    std::uint32_t unplaced = 0;       // runs that lie in no native frame
};

struct NativeStack {
    std::span<const NativeFrame> frames;  // leaf first
    bool is_complete = true;              // reaches the root
    std::span<const std::uint32_t> gaps = {};  // native frames are missing before these, in rising order
};

// Both lists leaf first. Entries are compared with [sp, cfa) of each native frame.
void merge_by_address(const NativeStack& native, std::span<const PythonRun> runs, Merged& merged);

// For interpreters without entries: `is_eval` says for each native frame whether it is the loop's. The loop of the
// leaf may be entering or leaving: then there is one more than there are Python frames. Where there are still
// more, the lowest are those of another greenlet. Of a whole stack with fewer no frame can be placed.
void merge_by_count(const NativeStack& native, const std::vector<bool>& is_eval, std::uint32_t python_frames, Merged& merged);

}  // namespace pyprof
