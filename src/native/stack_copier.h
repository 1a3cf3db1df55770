// SPDX-License-Identifier: Apache-2.0
//
// The one thing that is done while a thread is stopped for its native stack: registers, then one read of the
// used part of the stack and of whatever else the caller wants from the same moment. How far the stack
// reaches is remembered from the last walk, so that only what is used is copied (some 10 KiB, not a
// megabyte).
#pragma once

#include "native/module_map.h"
#include "native/stack_copy.h"
#include "native/unwinder.h"
#include "target/ptrace_stop.h"

#include <pyprof/target.h>

#include <tsl/robin_map.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace pyprof {

enum class CopyOutcome : std::uint8_t {
    kCopied,
    kNotStopped,  // gone, can't be stopped, or did not stop in time
    kUnreadable,  // stopped, but its registers or its stack can't be read
};

class StackCopier {
public:
    struct Copied {
        CopyOutcome outcome = CopyOutcome::kNotStopped;
        // Of the caller's ranges.
        ReadOutcome also;
        // From the moment when the thread was seen to be stopped until its resumption.
        std::chrono::nanoseconds stopped{0};
        // ... from the last moment of which it is known that it was not: the most for which it was held.
        std::chrono::nanoseconds held{0};
    };
    // What else is to be done while the thread is stopped; told of the caller's ranges. Short.
    using WhileStopped = std::function<void(const ReadOutcome&)>;

    // All three must outlive it.
    StackCopier(Memory& memory, const ModuleMap& map, ThreadStopper& stopper)
        : memory_(memory), map_(map), stopper_(stopper) {}

    // Stops the thread, copies, lets it run. `patience` runs while it runs: a machine that is busy may have
    // no processor for it to come to its stop on.
    Copied copy_running(pid_t tid, std::span<const ReadRange> also, StackCopy& copy,
                        std::chrono::nanoseconds patience = std::chrono::milliseconds(20),
                        const WhileStopped& while_stopped = {});
    // The same of a thread that somebody holds, and goes on holding.
    Copied copy_stopped(pid_t tid, const std::optional<RegisterSet>& registers, std::span<const ReadRange> also,
                        StackCopy& copy);
    // Of a thread that sleeps in the kernel, without a stop: only two registers are known. The caller makes
    // sure that it slept before and after.
    Copied copy_blocked(pid_t tid, const Activity& activity, std::span<const ReadRange> also,
                        StackCopy& copy);

    // Tell it how each walk ended.
    void learn(pid_t tid, const Unwound& unwound, std::span<const NativeFrame> frames);
    void forget_thread(pid_t tid) { stacks_.erase(tid); }

private:
    struct Stack {
        Address end{};  // null: not known
        std::uint64_t reach = kFirstReach;
    };
    static constexpr std::uint64_t kFirstReach = 256 << 10;

    CopyOutcome read(pid_t tid, std::span<const ReadRange> also, StackCopy& copy, ReadOutcome& also_outcome);
    // Reads from copy.begin on; how many bytes there were.
    std::uint64_t read_to_known_end(Stack& stack, std::span<const ReadRange> also, StackCopy& copy,
                                    ReadOutcome& also_outcome);
    std::uint64_t read_page_by_page(Stack& stack, StackCopy& copy);

    Memory& memory_;
    const ModuleMap& map_;
    ThreadStopper& stopper_;
    tsl::robin_map<pid_t, Stack> stacks_;
    std::vector<ReadRange> ranges_;
};

}  // namespace pyprof
