// SPDX-License-Identifier: Apache-2.0
//
// A running process as a Target. Reading it changes nothing in it; only stop() touches it, and undoes it.
// It stands for one program in one process for good: when the number is given to another process, or when the
// process executes another program, every call says "ended".
#pragma once

#include "target/ptrace_stop.h"

#include <pyprof/target.h>

#include <memory>
#include <vector>

namespace pyprof {

// Checks at once that the process is there, is not a kernel thread and may be read.
Result<std::unique_ptr<Target>> open_live_target(pid_t pid);

// Processes below `pid`, nearest first and at most some hundred. Any thread may ask.
std::vector<ProcessFacts> read_descendants_of(pid_t pid);

// For a ThreadStopper on the same process.
TracedProcess traced_process(pid_t pid);

}  // namespace pyprof
