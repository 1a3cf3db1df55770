// SPDX-License-Identifier: Apache-2.0
#include "live/top_tree.h"

#include "live/top_errors.h"
#include "profile/hash.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

void add(TopCount& sum, const TopCount& more) {
    sum.own += more.own;
    sum.total += more.total;
    sum.own_time += more.own_time;
    sum.total_time += more.total_time;
}

class Maker {
public:
    explicit Maker(bool with_lines) : with_lines_(with_lines) { tree_.nodes.emplace_back(); }

    // Returns the node of the tree for each of the profile's.
    std::vector<std::uint32_t> add_profile(const ResolvedProfile& profile, TopCount TopTree::Node::*count) {
        tree_.per_thread = profile.facts.with_threads;
        std::vector<std::uint32_t> functions;
        for (const ResolvedProfile::Frame& frame : profile.frames) functions.push_back(function_of(frame));
        std::vector<std::uint32_t> nodes{0};
        for (std::size_t i = 1; i < profile.nodes.size(); ++i) {
            const ResolvedProfile::Node& node = profile.nodes[i];
            nodes.push_back(child(nodes[node.parent], functions[node.frame]));
        }
        std::vector<std::uint64_t> of_node(profile.nodes.size(), 0);
        for (const ResolvedProfile::Weight& weight : profile.weights) {
            if (is_empty(nodes[weight.node])) continue;
            TopCount& leaf = tree_.nodes[nodes[weight.node]].*count;
            leaf.own += weight.samples;
            leaf.own_time += weight.time;
            of_node[weight.node] += weight.samples;
        }
        note_lines(profile, functions, of_node);
        return nodes;
    }

    TopTree take() {
        sum_up(&TopTree::Node::now);
        sum_up(&TopTree::Node::all);
        for (std::size_t i = 0; i < tree_.functions.size() && !with_lines_; ++i) {
            std::uint64_t most = 0;
            for (const auto& [line, samples] : lines_[i]) {
                if (samples > most) {
                    most = samples;
                    tree_.functions[i].line = line;
                }
            }
        }
        return std::move(tree_);
    }

    // Threads that have native frames only, where these are not shown.
    [[nodiscard]] bool is_empty(std::uint32_t node) const { return node == 0 || (tree_.per_thread && tree_.nodes[node].parent == 0); }

private:
    std::uint32_t function_of(const ResolvedProfile::Frame& frame) {
        const std::int32_t line = with_lines_ ? frame.line : 0;
        const auto [entry, is_new] = known_.try_emplace({frame.kind, frame.name, frame.full_file, frame.module, line},
                                                        static_cast<std::uint32_t>(tree_.functions.size()));
        if (is_new) {
            tree_.functions.push_back({frame.kind, frame.name, frame.file, frame.full_file, frame.module, line});
            lines_.emplace_back();
        }
        return entry->second;
    }

    std::uint32_t child(std::uint32_t parent, std::uint32_t function) {
        const auto [entry, is_new] =
            children_.try_emplace(pair(parent, function), static_cast<std::uint32_t>(tree_.nodes.size()));
        if (is_new) {
            tree_.nodes[parent].children.push_back(entry->second);
            tree_.nodes.push_back({parent, function, {}, {}, {}, {}});
        }
        return entry->second;
    }

    void sum_up(TopCount TopTree::Node::*count) {
        for (std::size_t i = tree_.nodes.size(); i-- > 0;) {
            TopCount& own = tree_.nodes[i].*count;
            own.total += own.own;
            own.total_time += own.own_time;
            if (i == 0) break;
            TopCount& parent = tree_.nodes[tree_.nodes[i].parent].*count;
            parent.total += own.total;
            parent.total_time += own.total_time;
        }
    }

    void note_lines(const ResolvedProfile& profile, const std::vector<std::uint32_t>& functions,
                    std::vector<std::uint64_t>& of_node) {
        for (std::size_t i = profile.nodes.size(); i-- > 1;) {
            const ResolvedProfile::Node& node = profile.nodes[i];
            of_node[node.parent] += of_node[i];
            lines_[functions[node.frame]][profile.frames[node.frame].line] += of_node[i];
        }
    }

    using Key = std::tuple<FrameKind, std::string, std::string, std::string, std::int32_t>;
    bool with_lines_;
    TopTree tree_;
    std::map<Key, std::uint32_t> known_;
    std::vector<std::map<std::int32_t, std::uint64_t>> lines_;  // by function
    tsl::robin_map<std::uint64_t, std::uint32_t, MixHash> children_;
};

}  // namespace

TopTree make_top_tree(const std::vector<TopSource>& last_interval, const std::vector<TopSource>& since_start, bool with_lines, TopErrorsOf errors) {
    Maker maker(with_lines);
    std::vector<std::vector<std::uint32_t>> nodes;
    nodes.reserve(since_start.size() + last_interval.size());
    for (const TopSource& source : since_start) nodes.push_back(maker.add_profile(source.profile, &TopTree::Node::all));
    for (const TopSource& source : last_interval) nodes.push_back(maker.add_profile(source.profile, &TopTree::Node::now));
    TopTree tree = maker.take();
    if (errors == TopErrorsOf::kNothing) return tree;
    std::vector<SeriesOfTree> series;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const bool is_last = i >= since_start.size();
        const TopSource& source = is_last ? last_interval[i - since_start.size()] : since_start[i];
        if (source.series == nullptr) continue;
        SeriesOfTree& one = series.emplace_back(SeriesOfTree{*source.series, {}, is_last});
        for (const std::uint32_t node : source.node_of_key) one.node_of_key.push_back(nodes[i][node]);
    }
    add_errors(tree, series, errors);
    return tree;
}

std::vector<std::uint32_t> threads_of(const TopTree& tree) {
    std::vector<std::uint32_t> thread_of(tree.nodes.size(), 0);
    for (std::uint32_t i = 1; i < tree.nodes.size() && tree.per_thread; ++i) {
        const std::uint32_t parent = tree.nodes[i].parent;
        thread_of[i] = parent == 0 ? i : thread_of[parent];
    }
    return thread_of;
}

std::vector<TopRow> make_top_rows(const TopTree& tree) {
    const std::vector<std::uint32_t> thread_of = threads_of(tree);
    std::map<std::pair<std::uint32_t, std::uint32_t>, TopRow> rows;
    const auto row_of = [&](std::uint32_t node) -> TopRow& {
        const std::uint32_t function = tree.nodes[node].function;
        TopRow& row = rows[{thread_of[node], function}];
        row.thread = thread_of[node];
        row.function = function;
        return row;
    };
    const auto is_thread = [&](std::uint32_t node) { return tree.per_thread && tree.nodes[node].parent == 0; };
    for (std::uint32_t i = 1; i < tree.nodes.size(); ++i) {
        if (is_thread(i)) continue;
        TopRow& row = row_of(i);
        add(row.now, {tree.nodes[i].now.own, 0, tree.nodes[i].now.own_time, nanoseconds{0}});
        add(row.all, {tree.nodes[i].all.own, 0, tree.nodes[i].all.own_time, nanoseconds{0}});
    }
    for_each_outermost(
        tree, tree.functions.size(), [&](std::uint32_t node) { return tree.nodes[node].function; },
        [&](std::uint32_t node) {
            if (is_thread(node)) return;
            TopRow& row = row_of(node);
            add(row.now, {0, tree.nodes[node].now.total, nanoseconds{0}, tree.nodes[node].now.total_time});
            add(row.all, {0, tree.nodes[node].all.total, nanoseconds{0}, tree.nodes[node].all.total_time});
        });
    std::vector<TopRow> result;
    result.reserve(rows.size());
    for (const auto& [key, row] : rows) result.push_back(row);
    for (std::size_t i = 0; i < std::min(result.size(), tree.row_errors.size()); ++i) result[i].errors = tree.row_errors[i];
    return result;
}

double share_of(std::uint64_t n, std::uint64_t samples) {
    return samples == 0 ? 0 : 100.0 * static_cast<double>(n) / static_cast<double>(samples);
}

}  // namespace pyprof
