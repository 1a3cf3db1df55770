// SPDX-License-Identifier: Apache-2.0
//
// Who holds a task that nobody awaits: the coroutine among whose variables it stands, as a rule the one that made it,
// and where in another task's chain a group of tasks was opened. For a target that stands still.
#pragma once

#include "python/frames.h"
#include "python/object_kinds.h"
#include "python/task_graph.h"

#include <pyprof/memory.h>

#include <tsl/robin_map.h>

#include <cstdint>
#include <span>
#include <vector>

namespace pyprof {

class TaskHolders {
public:
    TaskHolders(const Layout& layout, ObjectKinds& kinds) : layout_(&layout), kinds_(&kinds) {}

    // A task, as far as it matters here.
    struct Entry {
        Address task{};
        std::span<const RawFrame> frames;  // leaf first
        std::uint64_t number = 0;          // N of "Task-N": who made it has a smaller one; 0: none
        bool is_suspended = true;          // else its frames are not where they were read
        bool is_orphan = false;            // nobody awaits it, and it is not what the loop runs for
    };
    // Appends an edge for each orphan that the variables of one other task hold, or a list, tuple, set or dict in one of
    // them, and of no third.
    void find(Memory& memory, std::span<const Entry> tasks, std::vector<TaskEdge>& edges);

    // How many of these frames, from the outermost on, lead to the one that has `object` among its variables;
    // 1 where none has.
    [[nodiscard]] std::uint32_t depth_of(Memory& memory, std::span<const RawFrame> frames, Address object);

private:
    struct Hit {
        TaskIndex orphan = 0;
        TaskIndex holder = 0;
        std::uint32_t depth = 0;
    };
    void search(Memory& memory, std::span<const Entry> tasks, TaskIndex holder);
    void note(std::span<const Entry> tasks, Address object, TaskIndex holder, std::uint32_t depth);
    void keep_sole_holders(std::vector<TaskEdge>& edges);

    const Layout* layout_;
    ObjectKinds* kinds_;
    tsl::robin_map<std::uint64_t, TaskIndex> orphans_;  // by address
    std::vector<Hit> hits_;
    std::vector<Address> locals_;
};

}  // namespace pyprof
