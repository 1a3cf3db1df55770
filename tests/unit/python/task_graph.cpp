// SPDX-License-Identifier: Apache-2.0
#include "python/task_graph.h"

#include <catch2/catch.hpp>

#include <map>
#include <vector>

using namespace pyprof;

namespace {

TaskEdge edge(TaskIndex task, TaskIndex awaiter, EdgeSource source = EdgeSource::kAwait, bool is_wait = true) {
    return {task, awaiter, source, is_wait};
}

TaskGraph graph_of(std::size_t tasks, const std::vector<TaskEdge>& edges, bool with_inferred = true) {
    TaskGraph graph;
    graph.build(tasks, edges, {}, with_inferred);
    return graph;
}

std::vector<TaskIndex> path(const TaskGraph& graph, TaskIndex task, std::uint64_t turn = 0) {
    TaskGraph::Path found;
    graph.path_of(task, turn, found);
    return found.tasks;
}

std::vector<TaskIndex> leaves(const TaskGraph& graph) {
    std::vector<TaskIndex> all;
    for (TaskIndex task = 0; task < graph.size(); ++task) {
        if (graph.is_leaf(task)) all.push_back(task);
    }
    return all;
}

}  // namespace

TEST_CASE("task graph: a task that awaits a task is no leaf, and its path goes on to the root") {
    const TaskGraph graph = graph_of(3, {edge(2, 1), edge(1, 0, EdgeSource::kGather)});
    CHECK(leaves(graph) == std::vector<TaskIndex>{2});
    TaskGraph::Path found;
    graph.path_of(2, 0, found);
    CHECK(found.tasks == std::vector<TaskIndex>{2, 1, 0});
    CHECK(found.sources == std::vector<EdgeSource>{EdgeSource::kAwait, EdgeSource::kGather});
    CHECK_FALSE(found.ends_in_cycle);
    CHECK_FALSE(found.has_choice);
}

TEST_CASE("task graph: the parent of a group whose body runs is a leaf of its own") {
    const TaskGraph graph = graph_of(2, {edge(1, 0, EdgeSource::kTaskGroup, false)});
    CHECK(leaves(graph) == std::vector<TaskIndex>{0, 1});
    CHECK(path(graph, 1) == std::vector<TaskIndex>{1, 0});
}

TEST_CASE("task graph: turns go through all combinations of awaiters alike") {
    // 0 is awaited by 1, 2 and 3; 1 by 4 and 5.
    const TaskGraph graph = graph_of(6, {edge(0, 3), edge(0, 1), edge(0, 2), edge(1, 5), edge(1, 4)});
    std::map<std::vector<TaskIndex>, int> seen;
    for (std::uint64_t turn = 0; turn < 60; ++turn) ++seen[path(graph, 0, turn)];
    CHECK(seen == std::map<std::vector<TaskIndex>, int>{
                      {{0, 1, 4}, 10}, {{0, 1, 5}, 10}, {{0, 2}, 20}, {{0, 3}, 20}});
    TaskGraph::Path found;
    graph.path_of(0, 1, found);
    CHECK(found.has_choice);
}

TEST_CASE("task graph: the order of awaiters is that of the ranks, not of the edges") {
    TaskGraph graph;
    const std::vector<TaskEdge> edges{edge(0, 1), edge(0, 2)};
    const std::vector<std::uint64_t> order{5, 9, 7};
    graph.build(3, edges, order);
    CHECK(path(graph, 0, 0) == std::vector<TaskIndex>{0, 2});
    CHECK(path(graph, 0, 1) == std::vector<TaskIndex>{0, 1});
}

TEST_CASE("task graph: tasks that await each other are leaves, and their paths end in a cycle") {
    // 0 and 1 await each other, 2 awaits 1 and 3 awaits 2: those are above the circle.
    const TaskGraph graph = graph_of(5, {edge(0, 1), edge(1, 0), edge(1, 2), edge(2, 3)});
    CHECK(leaves(graph) == std::vector<TaskIndex>{0, 1, 4});
    TaskGraph::Path found;
    graph.path_of(0, 0, found);
    CHECK(found.tasks == std::vector<TaskIndex>{0, 1});
    CHECK(found.ends_in_cycle);
    // The other awaiter of 1 has its turn.
    CHECK(path(graph, 0, 1) == std::vector<TaskIndex>{0, 1, 2, 3});
}

TEST_CASE("task graph: a circle that a leaf leads to needs no leaf of its own") {
    const TaskGraph graph = graph_of(3, {edge(2, 0), edge(0, 1), edge(1, 0)});
    CHECK(leaves(graph) == std::vector<TaskIndex>{2});
    TaskGraph::Path found;
    graph.path_of(2, 0, found);
    CHECK(found.tasks == std::vector<TaskIndex>{2, 0, 1});
    CHECK(found.ends_in_cycle);
}

TEST_CASE("task graph: a task that awaits itself is seen") {
    const TaskGraph graph = graph_of(1, {edge(0, 0, EdgeSource::kGather)});
    CHECK(leaves(graph) == std::vector<TaskIndex>{0});
    TaskGraph::Path found;
    graph.path_of(0, 0, found);
    CHECK(found.ends_in_cycle);
}

TEST_CASE("task graph: of several edges between two tasks the surest stays") {
    const TaskGraph graph = graph_of(2, {edge(0, 1, EdgeSource::kAwaitedBy, false), edge(0, 1, EdgeSource::kShield),
                                         edge(0, 1, EdgeSource::kShield)});
    REQUIRE(graph.awaiters(0).size() == 1);
    CHECK(graph.awaiters(0)[0] == edge(0, 1, EdgeSource::kShield));
}

TEST_CASE("task graph: inferred edges can be left out, and edges to nothing are") {
    const std::vector<TaskEdge> edges{edge(0, 1, EdgeSource::kHeld, false), edge(0, 7), edge(9, 1)};
    CHECK(path(graph_of(2, edges), 0) == std::vector<TaskIndex>{0, 1});
    CHECK(path(graph_of(2, edges, false), 0) == std::vector<TaskIndex>{0});
}

TEST_CASE("task graph: thousands of tasks in a row are one path") {
    std::vector<TaskEdge> edges;
    constexpr TaskIndex kTasks = 3'000;
    for (TaskIndex task = 0; task + 1 < kTasks; ++task) edges.push_back(edge(task, task + 1));
    const TaskGraph graph = graph_of(kTasks, edges);
    CHECK(leaves(graph) == std::vector<TaskIndex>{0});
    CHECK(path(graph, 0).size() == kTasks);
}
