// SPDX-License-Identifier: Apache-2.0
#include "python/task_graph.h"

#include <algorithm>
#include <array>

namespace pyprof {

std::string_view name_of(TaskState state) {
    switch (state) {
        case TaskState::kRunning:
            return "running";
        case TaskState::kReady:
            return "ready";
        case TaskState::kWaiting:
            break;
    }
    return "waiting";
}

std::string_view name_of(EdgeSource source) {
    constexpr std::array<std::string_view, 15> kNames{
        "await",   "join",   "gather",   "wait",       "wait_for", "shield",   "as_completed", "chained",
        "task_group", "awaited_by", "recorded", "created", "callback", "remembered", "held"};
    return kNames[static_cast<std::size_t>(source)];
}

void TaskGraph::build(std::size_t tasks, std::span<const TaskEdge> edges, std::span<const std::uint64_t> order,
                      bool with_inferred) {
    edges_.clear();
    for (const TaskEdge& edge : edges) {
        if (edge.task >= tasks || edge.awaiter >= tasks) continue;
        if (is_inferred(edge.source) && !with_inferred) continue;
        edges_.push_back(edge);
    }
    const auto rank = [&](TaskIndex task) { return task < order.size() ? order[task] : task; };
    std::sort(edges_.begin(), edges_.end(), [&](const TaskEdge& a, const TaskEdge& b) {
        if (a.task != b.task) return a.task < b.task;
        if (a.awaiter != b.awaiter) {
            return rank(a.awaiter) != rank(b.awaiter) ? rank(a.awaiter) < rank(b.awaiter) : a.awaiter < b.awaiter;
        }
        return a.source < b.source;
    });
    // Doubles stand together, the surest first; any of them may know that the awaiter waits.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
        if (kept > 0 && edges_[kept - 1].task == edges_[i].task && edges_[kept - 1].awaiter == edges_[i].awaiter) {
            edges_[kept - 1].is_wait |= edges_[i].is_wait;
            edges_[kept - 1].depth = std::max(edges_[kept - 1].depth, edges_[i].depth);
            continue;
        }
        edges_[kept++] = edges_[i];
    }
    edges_.resize(kept);

    first_.assign(tasks + 1, 0);
    for (const TaskEdge& edge : edges_) ++first_[edge.task + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    find_leaves();
}

// Marks everything above what is marked.
void TaskGraph::cover_ancestors(std::vector<std::uint8_t>& is_covered) const {
    std::vector<TaskIndex> open;
    for (TaskIndex task = 0; task < is_covered.size(); ++task) {
        if (is_covered[task] != 0) open.push_back(task);
    }
    while (!open.empty()) {
        const TaskIndex task = open.back();
        open.pop_back();
        for (const TaskEdge& edge : awaiters(task)) {
            if (is_covered[edge.awaiter] != 0) continue;
            is_covered[edge.awaiter] = 1;
            open.push_back(edge.awaiter);
        }
    }
}

void TaskGraph::find_leaves() {
    const std::size_t tasks = size();
    is_leaf_.assign(tasks, 1);
    for (const TaskEdge& edge : edges_) {
        if (edge.is_wait) is_leaf_[edge.awaiter] = 0;
    }
    std::vector<std::uint8_t> is_covered = is_leaf_;
    cover_ancestors(is_covered);
    // What no leaf leads to stands in a circle of awaiters or above one. Above: its awaiters, and theirs, come
    // to an end. Taking those away again and again leaves the circles.
    std::vector<std::uint32_t> open_awaiters(tasks, 0);
    std::vector<std::vector<TaskIndex>> awaited(tasks);
    for (const TaskEdge& edge : edges_) {
        if (is_covered[edge.task] != 0 || is_covered[edge.awaiter] != 0) continue;
        ++open_awaiters[edge.task];
        awaited[edge.awaiter].push_back(edge.task);
    }
    std::vector<TaskIndex> open;
    for (TaskIndex task = 0; task < tasks; ++task) {
        if (is_covered[task] == 0 && open_awaiters[task] == 0) open.push_back(task);
    }
    while (!open.empty()) {
        const TaskIndex task = open.back();
        open.pop_back();
        is_covered[task] = 1;
        for (const TaskIndex child : awaited[task]) {
            if (--open_awaiters[child] == 0) open.push_back(child);
        }
    }
    for (TaskIndex task = 0; task < tasks; ++task) {
        if (is_covered[task] == 0) is_leaf_[task] = 1;
    }
}

void TaskGraph::path_of(TaskIndex task, std::uint64_t turn, Path& path) const {
    path.tasks.assign(1, task);
    path.sources.clear();
    path.ends_in_cycle = false;
    path.has_choice = false;
    while (true) {
        const std::span<const TaskEdge> next = awaiters(path.tasks.back());
        if (next.empty()) return;
        std::size_t choice = 0;
        if (next.size() > 1) {
            path.has_choice = true;
            choice = turn % next.size();
            turn /= next.size();
        }
        const TaskEdge& edge = next[choice];
        if (std::find(path.tasks.begin(), path.tasks.end(), edge.awaiter) != path.tasks.end()) {
            path.ends_in_cycle = true;
            return;
        }
        path.tasks.push_back(edge.awaiter);
        path.sources.push_back(edge.source);
    }
}

}  // namespace pyprof
