// SPDX-License-Identifier: Apache-2.0
//
// Two resolved profiles, of the last interval and since the start, as one call tree with counts, and the table of
// functions that follows from it. Pure: no process, no screen. A function that calls itself counts once a sample.
#pragma once

#include <pyprof/profile.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace pyprof {

struct TopCount {
    std::uint64_t own = 0;    // samples with the function as leaf
    std::uint64_t total = 0;  // samples with it anywhere
    std::chrono::nanoseconds own_time{0};
    std::chrono::nanoseconds total_time{0};
};

struct TopFunction {
    FrameKind kind = FrameKind::kPython;
    std::string name;
    std::string file;
    std::string full_file;
    std::int32_t line = 0;  // with lines: its own; without: that with the most samples since the start
};

struct TopTree {
    struct Node {
        std::uint32_t parent = 0;
        std::uint32_t function = 0;  // of node 0: meaningless
        TopCount now;                // the last interval
        TopCount all;                // since the start
        std::vector<std::uint32_t> children;
    };
    std::vector<TopFunction> functions;
    std::vector<Node> nodes;  // a parent's index is lower than its child's; the counts of node 0 are the bases
    bool per_thread = false;  // the children of node 0 are threads
};

TopTree make_top_tree(const ResolvedProfile& last_interval, const ResolvedProfile& since_start, bool with_lines);

struct TopRow {
    std::uint32_t thread = 0;    // its node; 0: all threads together
    std::uint32_t function = 0;
    TopCount now;
    TopCount all;
};
// One row a function, and a thread where the tree is per thread; in no order.
std::vector<TopRow> make_top_rows(const TopTree& tree);

// The standard error of a sampled time: n of `samples` independent samples that stand for `time` together.
std::chrono::nanoseconds error_of_time(std::uint64_t n, std::uint64_t samples, std::chrono::nanoseconds time);
// The same of a share in percent.
double error_of_share(std::uint64_t n, std::uint64_t samples);
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
