// SPDX-License-Identifier: Apache-2.0
//
// Resolved profiles, of the last interval and since the start, as one call tree with counts, and the table of functions
// that follows from it. Pure: no process, no screen. A function that calls itself counts once a sample.
#pragma once

#include "live/sample_series.h"

#include <pyprof/profile.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pyprof {

struct TopCount {
    std::uint64_t own = 0;    // samples with the function as leaf
    std::uint64_t total = 0;  // samples with it anywhere
    std::chrono::nanoseconds own_time{0};
    std::chrono::nanoseconds total_time{0};
};

// Standard errors; the rule is in docs/watch.md.
struct TopErrors {
    double own_percent = 0;  // of the last interval's samples
    double total_percent = 0;
    std::chrono::nanoseconds own_time{0};  // since the start
    std::chrono::nanoseconds total_time{0};
};

struct TopFunction {
    FrameKind kind = FrameKind::kPython;
    std::string name;
    std::string file;
    std::string full_file;
    std::string module;     // of a native one: the file that its code is in
    std::int32_t line = 0;  // with lines: its own; without: that with the most samples since the start
};

struct TopTree {
    struct Node {
        std::uint32_t parent = 0;
        std::uint32_t function = 0;  // of node 0: meaningless
        TopCount now;                // the last interval
        TopCount all;                // since the start
        TopErrors errors;
        std::vector<std::uint32_t> children;
    };
    std::vector<TopFunction> functions;
    std::vector<Node> nodes;  // a parent's index is lower than its child's; the counts of node 0 are the bases
    std::vector<TopErrors> row_errors;  // of make_top_rows(), where they were asked for
    bool per_thread = false;  // the children of node 0 are threads
};

// What was counted in one recording.
struct TopSource {
    ResolvedProfile profile;
    // For errors: samples in the order of looks, and the node of the profile that each of its keys stands for.
    std::shared_ptr<const SampleSeries> series;
    std::vector<std::uint32_t> node_of_key;
};

enum class TopErrorsOf : std::uint8_t { kNothing, kRows, kNodes };  // threads are nodes either way
TopTree make_top_tree(const std::vector<TopSource>& last_interval, const std::vector<TopSource>& since_start, bool with_lines,
                      TopErrorsOf errors = TopErrorsOf::kNothing);

// The thread of each node, which is a node itself; 0 where the tree is not per thread.
std::vector<std::uint32_t> threads_of(const TopTree& tree);

struct TopRow {
    std::uint32_t thread = 0;    // its node; 0: all threads together
    std::uint32_t function = 0;
    TopCount now;
    TopCount all;
    TopErrors errors;
};
// One row a function, and a thread where the tree is per thread; in no order.
std::vector<TopRow> make_top_rows(const TopTree& tree);

double share_of(std::uint64_t n, std::uint64_t samples);  // in percent; 0 of nothing

// Visits the nodes that are the outermost of their key on the way from the root: node by node, each after its parent.
// `key` says what counts as the same.
template <class Key, class Visit>
void for_each_outermost(const TopTree& tree, std::size_t keys, Key key, Visit visit) {
    std::vector<std::uint32_t> open(keys, 0);
    struct Step {
        std::uint32_t node;
        std::size_t next_child;
    };
    std::vector<Step> path;
    const auto enter = [&](std::uint32_t node) {
        if (open[key(node)]++ == 0) visit(node);
        path.push_back({node, 0});
    };
    for (const std::uint32_t root : tree.nodes.front().children) {
        enter(root);
        while (!path.empty()) {
            const std::vector<std::uint32_t>& children = tree.nodes[path.back().node].children;
            if (path.back().next_child < children.size()) {
                enter(children[path.back().next_child++]);
            } else {
                --open[key(path.back().node)];
                path.pop_back();
            }
        }
    }
}

}  // namespace pyprof
