// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom among tasks, as plain data: tasks are indices, an edge leads from a task to one that
// awaits it. Out come logical paths, from a task over its awaiters to the root. Nothing here reads memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pyprof {

using TaskIndex = std::uint32_t;

enum class TaskState : std::uint8_t {
    kRunning,  // its coroutine executes
    kReady,    // nothing keeps it back but its loop, which has not come to it
    kWaiting,  // for a future that is not done
};
std::string_view name_of(TaskState state);  // "running", "ready", "waiting"

// How an edge was found; from the surest to the least sure.
enum class EdgeSource : std::uint8_t {
    kAwait,        // the task's callback wakes the awaiter: `await task`
    kJoin,         // of gevent: its end wakes the awaiter
    kGather,       // ... by way of asyncio.gather()
    kWait,         // asyncio.wait(), gevent.wait(), joinall()
    kWaitFor,      // asyncio.wait_for()
    kShield,       // asyncio.shield()
    kAsCompleted,  // asyncio.as_completed()
    kChained,      // a future that another one feeds: run_in_executor, run_coroutine_threadsafe, wrap_future
    kTaskGroup,    // asyncio.TaskGroup: the task that opened the group
    kAwaitedBy,    // fut_awaited_by alone says so (3.14 on)
    kRecorded,     // a library keeps it: anyio's parent_id, trio's nursery, the greenlet that spawned this one
    kCreated,      // the creation stack or the debug traceback names the creator
    kCallback,     // a callback of the program or of some library holds a future that the awaiter waits for
    kRemembered,   // it was one of the above in an earlier look
    kHeld,         // a local variable of a coroutine holds the task
};
std::string_view name_of(EdgeSource source);  // "await", "gather", ...
// Found by likelihood, not by what the program or a library wrote down.
constexpr bool is_inferred(EdgeSource source) { return source >= EdgeSource::kCallback; }

struct TaskEdge {
    TaskIndex task = 0;
    TaskIndex awaiter = 0;
    EdgeSource source = EdgeSource::kAwait;
    // The awaiter does nothing but wait for this task (among others): its own stack is a part of the task's.
    // False for the parent of a group whose body still runs: that one is seen for itself, too.
    bool is_wait = true;
    // Of an awaiter that does not wait: how many of its coroutines, the outermost first, lead to the one that made
    // the task or opened its group. What they call now has nothing to do with it.
    std::uint32_t depth = 1;
    friend bool operator==(const TaskEdge&, const TaskEdge&) = default;
};

class TaskGraph {
public:
    // Of edges with the same two ends the surest source stays. Edges that name no task are left out.
    // `order` ranks tasks (by address, say), so that equal looks give equal paths; it has a value a task.
    void build(std::size_t tasks, std::span<const TaskEdge> edges, std::span<const std::uint64_t> order,
               bool with_inferred = true);

    [[nodiscard]] std::size_t size() const { return first_.empty() ? 0 : first_.size() - 1; }
    [[nodiscard]] std::span<const TaskEdge> awaiters(TaskIndex task) const {
        return std::span(edges_).subspan(first_[task], first_[task + 1] - first_[task]);
    }
    // No other task's path shows it: whoever samples every leaf has sampled every task. Of tasks that wait
    // for each other in a circle, each is a leaf.
    [[nodiscard]] bool is_leaf(TaskIndex task) const { return is_leaf_[task] != 0; }

    struct Path {
        std::vector<TaskIndex> tasks;     // the task, its awaiter, that one's awaiter, ...
        std::vector<EdgeSource> sources;  // of the edge below each task but the first
        bool ends_in_cycle = false;       // the next awaiter stands in the path already
        bool has_choice = false;          // some task on it has several awaiters
    };
    // Where a task has several awaiters, `turn` chooses: successive turns go through every combination alike.
    void path_of(TaskIndex task, std::uint64_t turn, Path& path) const;

private:
    void find_leaves();
    void cover_ancestors(std::vector<std::uint8_t>& is_covered) const;

    std::vector<TaskEdge> edges_;       // by task
    std::vector<std::uint32_t> first_;  // of each task's edges; one more at the end
    std::vector<std::uint8_t> is_leaf_;
};

}  // namespace pyprof
