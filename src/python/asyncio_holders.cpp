// SPDX-License-Identifier: Apache-2.0
//
// Who holds a task that nobody awaits: who made it, probably. In a target that runs it is looked for once for each, among
// all tasks of an interpreter as of one moment, and remembered as long as both live. The search takes a hundredth of a
// processor at the most, and none where there are very many tasks. It must close no circle: what is awaited may well
// hold the task that waits for it.
#include "python/asyncio_state.h"

#include "base/clock.h"

#include <algorithm>
#include <utility>

namespace pyprof {

namespace {

constexpr std::size_t kMostSearched = 1'000;  // tasks
constexpr int kMostInVain = 4;                // searches; a look brings the pages for which the last one lacked
constexpr int kLongestShare = 100;            // a search is followed by a pause of so many times its length
constexpr std::size_t kMostHeld = 1U << 14;
constexpr std::size_t kMostSteps = 1U << 20;  // on the ways up from all holders

// The tasks that wait for each, over any number of others, by place behind `first`.
class Above {
public:
    Above(const TaskSweep& sweep, TaskIndex first) : first_(first), awaiters_(sweep.tasks.size() - first), turn_of_(awaiters_.size(), 0) {
        for (const TaskEdge& edge : sweep.edges) {
            if (edge.task >= first && edge.awaiter >= first) add(edge);
        }
    }
    void add(const TaskEdge& edge) { awaiters_[edge.task - first_].push_back(edge.awaiter - first_); }
    // True, too, where that would take too long to tell.
    [[nodiscard]] bool has(TaskIndex task, TaskIndex above) {
        ++turn_;
        open_.assign(1, task - first_);
        while (!open_.empty()) {
            const TaskIndex next = open_.back();
            open_.pop_back();
            if (next == above - first_ || ++steps_ > kMostSteps) return true;
            if (std::exchange(turn_of_[next], turn_) == turn_) continue;
            open_.insert(open_.end(), awaiters_[next].begin(), awaiters_[next].end());
        }
        return false;
    }

private:
    TaskIndex first_;
    std::vector<std::vector<TaskIndex>> awaiters_;
    std::vector<TaskIndex> open_;
    std::vector<std::uint32_t> turn_of_;
    std::uint32_t turn_ = 0;
    std::size_t steps_ = 0;
};

void add_without_circles(TaskSweep& sweep, TaskIndex first, const std::vector<TaskEdge>& held) {
    if (held.empty()) return;
    Above above(sweep, first);
    for (const TaskEdge& edge : held) {
        if (above.has(edge.awaiter, edge.task)) continue;
        above.add(edge);
        sweep.edges.push_back(edge);
    }
}

// Which tasks somebody awaits, by place behind `first`.
std::vector<std::uint8_t> find_awaited(const TaskSweep& sweep, TaskIndex first) {
    std::vector<std::uint8_t> is_awaited(sweep.tasks.size() - first, 0);
    for (const TaskEdge& edge : sweep.edges) {
        if (edge.task >= first) is_awaited[edge.task - first] = 1;
    }
    return is_awaited;
}

// `is_orphan`: of a task by its place in the sweep.
template <class IsOrphan>
std::vector<TaskHolders::Entry> list_entries(const TaskSweep& sweep, TaskIndex first, IsOrphan&& is_orphan) {
    std::vector<TaskHolders::Entry> entries;
    for (TaskIndex i = first; i < sweep.tasks.size(); ++i) {
        const AsyncTask& task = sweep.tasks[i];
        entries.push_back({task.address, sweep.frames_of(task), task.name.number, task.state != TaskState::kRunning, is_orphan(i)});
    }
    return entries;
}

}  // namespace

// Of a target that stands still.
void AsyncioReader::find_holders(TaskSweep& sweep) {
    if (interpreters_.size() != 1) return;  // a task is held by one of its own interpreter
    const std::vector<std::uint8_t> is_awaited = find_awaited(sweep, 0);
    const auto entries = list_entries(sweep, 0, [&](TaskIndex i) { return is_awaited[i] == 0 && !sweep.tasks[i].is_loops_own; });
    std::vector<TaskEdge> held;
    interpreters_.front()->holders.find(*pages_, entries, held);
    add_without_circles(sweep, 0, held);
}

// `first`: of the tasks of this moment in the sweep; all of the interpreter are among them.
void AsyncioReader::add_holders(Interpreter& interpreter, TaskSweep& sweep, TaskIndex first) {
    if (sweep.tasks.size() - first > kMostSearched) return;
    const std::vector<std::uint8_t> is_awaited = find_awaited(sweep, first);
    if (interpreter.held.size() > kMostHeld) interpreter.held.clear();
    std::vector<TaskIndex> wanted;
    for (TaskIndex i = first; i < sweep.tasks.size(); ++i) {
        const AsyncTask& task = sweep.tasks[i];
        if (is_awaited[i - first] != 0 || task.is_loops_own || task.is_greenlet) continue;
        const auto known = interpreter.held.find(raw(task.address));
        if (known == interpreter.held.end() || known->second.task != key_of(task)) wanted.push_back(i);
    }
    if (!wanted.empty()) search_holders(interpreter, sweep, first, wanted);
    std::vector<TaskEdge> held;
    for (TaskIndex i = first; i < sweep.tasks.size(); ++i) {
        if (is_awaited[i - first] != 0) continue;
        const auto known = interpreter.held.find(raw(sweep.tasks[i].address));
        if (known == interpreter.held.end() || known->second.task != key_of(sweep.tasks[i])) continue;
        const auto holder = index_.find(raw(known->second.holder.task));
        if (holder == index_.end()) continue;
        const TaskIndex kept = nodes_[holder->second].kept_as;
        const bool is_there = kept >= first && kept < sweep.tasks.size() && key_of(sweep.tasks[kept]) == known->second.holder;
        if (is_there) held.push_back({i, kept, EdgeSource::kHeld, false, 1});
    }
    add_without_circles(sweep, first, held);
}

void AsyncioReader::search_holders(Interpreter& interpreter, TaskSweep& sweep, TaskIndex first, const std::vector<TaskIndex>& wanted) {
    const std::chrono::nanoseconds now = monotonic_now();
    if (now < interpreter.next_search) {
        sweep.search_again = interpreter.next_search;
        return;
    }
    // Of one that runs nothing is known, and it may be the very one. A look will follow when its step is over.
    const auto runs = [](const AsyncTask& task) { return task.state == TaskState::kRunning; };
    if (std::any_of(sweep.tasks.begin() + first, sweep.tasks.end(), runs)) return;
    const std::chrono::nanoseconds began = thread_cpu_time();
    const auto entries = list_entries(sweep, first, [&](TaskIndex i) { return std::binary_search(wanted.begin(), wanted.end(), i); });
    std::vector<TaskEdge> found;
    pages_->start_log();
    interpreter.holders.find(*pages_, entries, found);
    pages_->stop_log();
    const std::chrono::nanoseconds took = thread_cpu_time() - began;
    sweep.searched += took;
    interpreter.search_took += took;
    const bool is_of_look = pages_->is_log_of_look();
    if (!is_of_look && ++interpreter.searches_in_vain < kMostInVain) {
        sweep.search_again = now;
        return;
    }
    interpreter.next_search = now + kLongestShare * interpreter.search_took;
    interpreter.search_took = {};
    interpreter.searches_in_vain = 0;
    for (const TaskIndex task : wanted) interpreter.held[raw(sweep.tasks[task].address)] = {key_of(sweep.tasks[task]), {}};
    if (!is_of_look) return;
    for (const TaskEdge& edge : found) {
        const AsyncTask& task = sweep.tasks[first + edge.task];
        interpreter.held[raw(task.address)].holder = key_of(sweep.tasks[first + edge.awaiter]);
    }
}

}  // namespace pyprof
