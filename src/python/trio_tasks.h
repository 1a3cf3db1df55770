// SPDX-License-Identifier: Apache-2.0
//
// What trio keeps of its tasks (trio/_core/_run.py): the Runner of each trio.run(), its tasks, and the nursery in
// which each was started, which leads to the task that opened it. Task and Runner are classes with slots, whose
// places are looked up once. Everything is bounded, and checked by its type before it is believed.
#pragma once

#include "python/loop_frames.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace pyprof {

struct TrioModule {
    Address task_type{};
    Address runner_type{};
    struct Task {  // offsets of slots
        Offset coroutine = kAbsent;
        Offset name = kAbsent;
        Offset counter = kAbsent;  // an int that no other task has
        Offset runner = kAbsent;
        Offset parent_nursery = kAbsent;
        Offset child_nurseries = kAbsent;  // a list, the innermost one last
        Offset next_send_fn = kAbsent;     // None while it waits
    } task;
    Offset runner_tasks = kAbsent;      // a set
    Offset runner_init_task = kAbsent;  // trio's own, that stands above all others
};

// sys.modules["trio._core._run"]; nothing where it is not loaded, or where its classes are not as they are known.
[[nodiscard]] std::optional<TrioModule> find_trio(Memory& memory, const Layout& layout, Address interpreter);

// The Runner of which the thread's frame of trio.run() holds; guest mode has no such frame.
FrameSearch find_trio_runner(Memory& memory, const Layout& layout, const TrioModule& trio, Address thread, Address& runner);

// Appends the tasks of a Runner, but for the one that is trio's own. False: they can't be read.
bool list_trio_tasks(Memory& memory, const Layout& layout, const TrioModule& trio, Address runner, std::size_t most,
                     std::vector<Address>& tasks);

struct TrioTask {
    Address coroutine{};
    Address runner{};
    Address name{};           // a str
    std::uint64_t number = 0;  // from 1 on; 0: not known
    bool is_scheduled = false;  // its loop will come to it
    Address nursery{};        // in which it was started; null where that is trio's own
    Address parent{};         // the task that opened that one
    Address ends_nursery{};   // its own, for whose tasks it waits; null: it is in none, or in the body of one
};
// Of an object that is known to be a task. False: what stands there makes no sense.
bool read_trio_task(Memory& memory, const Layout& layout, const TrioModule& trio, Address task, TrioTask& found);

}  // namespace pyprof
