// SPDX-License-Identifier: Apache-2.0
//
// One look at every thread of a process: state, name, stack. The target is stopped for the copy only,
// or not at all; then a stack that did not hold still is marked and never guessed.
#pragma once

#include <pyprof/frame.h>
#include <pyprof/target.h>

#include "python/python_process.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

enum class ThreadCondition : std::uint8_t { kUnknown, kRunning, kIdle, kGilWait, kGc };
std::string_view name_of(ThreadCondition condition);  // "running", "idle", "gil-wait", "gc", "unknown"

struct DumpFrame {
    FrameKind kind = FrameKind::kPython;
    std::string name;
    std::string file;
    std::int32_t line = 0;
};

struct DumpThread {
    std::uint64_t native_id = 0;
    std::string name;
    ThreadCondition condition = ThreadCondition::kUnknown;
    std::optional<bool> holds_gil;   // empty: there is no GIL
    std::optional<std::string> syscall;  // while blocked in one
    std::vector<DumpFrame> frames;   // leaf first
};

struct Dump {
    ProcessFacts process;
    std::string python;
    std::vector<DumpThread> threads;  // main first, then as they were made
    std::uint32_t broken_lists = 0;   // lists of threads that could not be read to their end
};

struct DumpOptions {
    bool nonblocking = false;
    bool with_lines = true;
};

Result<Dump> take_dump(Target& target, PythonProcess& process, const DumpOptions& options);

}  // namespace pyprof
