// SPDX-License-Identifier: Apache-2.0
//
// One look at every thread of a process: state, name, stack. The target is stopped for the copy only,
// or not at all; then a stack that did not hold still is marked and never guessed.
#pragma once

#include <pyprof/frame.h>
#include <pyprof/target.h>

#include "python/python_process.h"
#include "python/task_graph.h"
#include "target/stopped.h"

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
    std::string module = {};  // of a native frame: the file that its code is in
};

struct DumpThread {
    std::uint64_t native_id = 0;
    std::string name;
    ThreadCondition condition = ThreadCondition::kUnknown;
    std::optional<bool> holds_gil;   // empty: there is no GIL
    std::optional<std::string> syscall;  // while blocked in one
    std::vector<DumpFrame> frames;   // leaf first
};

// A task of asyncio or trio, or a greenlet of gevent, that is not done.
struct DumpTask {
    struct Awaiter {
        std::size_t task = 0;  // index in Dump::tasks
        EdgeSource source = EdgeSource::kAwait;
        bool is_wait = true;   // false: the awaiter, a group's parent say, does something else now
        std::uint32_t depth = 1;  // ... how many of its coroutines, the outermost first, lead to what made the task
    };
    std::uint64_t id = 0;  // its address: unique among those that live at one time
    bool is_greenlet = false;
    std::string name;
    bool is_named = false;  // by the program; else asyncio's "Task-N", or what the greenlet runs
    std::string coroutine;  // qualified name of its outermost coroutine, or of what the greenlet runs
    TaskState state = TaskState::kWaiting;
    bool has_begun = true;
    std::optional<std::uint64_t> thread;         // native id; empty: its loop does not run
    std::string waiting_on;                      // type of the future that it waits for; empty: none
    std::optional<std::size_t> waiting_on_task;  // where that is a task, and the only one
    std::vector<DumpFrame> frames;               // leaf first
    std::vector<Awaiter> awaiters;
    std::vector<std::uint64_t> workers;  // native ids of the threads that do work for it
    std::vector<std::uint64_t> waiting_threads;  // native ids of those that wait for its end
    std::vector<DumpFrame> creation;  // where its coroutine was made, innermost first; empty: not noted
};

struct Dump {
    ProcessFacts process;
    std::string python;
    StoppedBy stopped_by = StoppedBy::kNobody;  // before our own stop
    std::vector<DumpThread> threads;  // main first, then as they were made
    std::uint32_t broken_lists = 0;   // lists of threads or tasks that could not be read to their end
    bool has_asyncio = false;         // asyncio is loaded and was looked at
    std::string asyncio_problem;      // why its tasks can't be read; empty: they can
    std::vector<DumpTask> tasks;
    std::uint32_t torn_tasks = 0;     // that did not hold still long enough to be read
    std::uint32_t unreadable_threads = 0;  // that were listed; most have ended meanwhile
};

struct DumpOptions {
    bool nonblocking = false;
    bool with_lines = true;
    bool with_tasks = true;  // of asyncio
    bool native = false;     // native frames, too, and threads that run no Python
    bool native_all = false; // ... machinery included
};

Result<Dump> take_dump(Target& target, PythonProcess& process, const DumpOptions& options);

}  // namespace pyprof
