// SPDX-License-Identifier: Apache-2.0
//
// Up to 3.9 nothing in a thread state tells which thread runs its frames, but C stacks do: the interpreter's loop
// keeps the address of the frame that it runs for as long as it runs it, in a register or on its stack. So a chain of
// frames is that thread's whose C stack holds all of their addresses, each below its caller's. A stack that lets the
// chain go may hold them for some time, too: where several do, none is believed.
#pragma once

#include <pyprof/target.h>

#include "native/stack_copy.h"
#include "python/frames.h"
#include "sample/triage.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace pyprof {

// The same on one copied stack, where none is known to hold them too: what an earlier call left there looks alike.
[[nodiscard]] Address find_loop(const StackCopy& stack, std::span<const RawFrame> frames);

class LoopsOnCStacks {
public:
    // Copies the used parts of the C stacks of threads: of all while `stop` holds them, of those that sleep without one.
    void copy(Target& target, std::span<const ThreadId> threads, std::span<const Mapping> mappings, const Stop* stop);

    // Where the loop that runs the first of these frames (leaf first) keeps its address; null where no stack holds them
    // all, or several do and none of them is that of the thread `own` (0: not known).
    [[nodiscard]] Address find(std::span<const RawFrame> frames, pid_t own) const;

private:
    void add(Memory& memory, pid_t tid, const RegisterSet& registers, std::span<const Mapping> mappings);

    static constexpr std::uint64_t kMostBytes = 64U << 20;  // of all stacks

    std::vector<std::pair<pid_t, StackCopy>> stacks_;
    std::uint64_t bytes_ = 0;
};

}  // namespace pyprof
