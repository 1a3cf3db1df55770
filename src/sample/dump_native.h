// SPDX-License-Identifier: Apache-2.0
//
// The native side of a dump: copies of the stacks of all threads while they are stopped (or sleep), joined with their
// Python frames and named when they run again.
#pragma once

#include "sample/dump.h"
#include "sample/native_frames.h"
#include "sample/native_names.h"
#include "sample/native_stacks.h"
#include "sample/triage.h"

#include <tsl/robin_map.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pyprof {

class DumpNative {
public:
    DumpNative(Target& target, const Layout& layout, StackTable& stacks, const DumpOptions& options);

    // While all are stopped; `stop` knows their registers. Null: only threads that sleep are copied.
    void copy_threads(std::span<const ThreadId> threads, const Stop* stop);
    // Whether a thread that was copied as it slept has slept on until now.
    [[nodiscard]] bool slept_on(pid_t tid);

    // The stack of the thread whose copied C stack holds `entry`, else of `tid`. Names come later, when all are joined:
    // which functions are the interpreter's loop is learnt from all.
    struct Thread {
        std::vector<NativeStacks::Part> parts;  // of one OS thread, the interpreter entered last first
        Address entry{};
        pid_t tid = 0;
        std::string above_python;  // markers
        std::string leaf;
    };
    std::optional<StackId> join(const Thread& thread);
    [[nodiscard]] std::vector<DumpFrame> name(StackId stack);  // leaf first

private:
    struct Copied {
        StackCopy copy;
        ThreadTriage triage;  // as of before the copy, where the thread was not stopped
    };
    void copy_sleeping(pid_t tid);

    Target& target_;
    StackTable& stacks_;
    ThreadStopper no_stopper_;
    NativeAddresses addresses_;
    NativeStacks native_;
    tsl::robin_map<pid_t, Copied> copies_;
};

}  // namespace pyprof
