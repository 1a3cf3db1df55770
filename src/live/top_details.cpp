// SPDX-License-Identifier: Apache-2.0
#include "live/top_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace pyprof {

namespace {

constexpr std::int32_t kAround = 5;  // lines of source before the first and behind the last that was sampled

bool is_same(const TopFunction& a, const TopFunction& b) { return a.kind == b.kind && a.name == b.name && a.full_file == b.full_file && a.module == b.module; }

std::vector<TopDetails::Other> others_of(const TopTree& tree, const std::map<std::uint32_t, std::uint64_t>& samples) {
    std::vector<TopDetails::Other> others;
    for (const auto& [index, count] : samples) {
        const TopFunction& function = tree.functions[index];
        others.push_back({function.name, function.file.empty() ? function.module : function.file, count});
    }
    std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.samples != b.samples ? a.samples > b.samples : a.name < b.name; });
    return others;
}

// Who calls the outermost activation; what any activation calls, once a sample.
void add_neighbours(TopDetails& details, const TopTree& tree, std::uint32_t own) {
    std::map<std::uint32_t, std::uint64_t> callers;
    std::map<std::uint32_t, std::uint64_t> callees;
    const auto function = [&](std::uint32_t node) { return tree.nodes[node].function; };
    for_each_outermost(tree, tree.functions.size(), function, [&](std::uint32_t node) {
        if (function(node) != own) return;
        details.count.total += tree.nodes[node].all.total;
        if (tree.nodes[node].parent != 0) callers[function(tree.nodes[node].parent)] += tree.nodes[node].all.total;
    });
    // A callee below one of `own` is a key of its own; all else is one key, which is not visited.
    const auto called = [&](std::uint32_t node) {
        const std::uint32_t parent = tree.nodes[node].parent;
        const bool is_callee = parent != 0 && function(parent) == own && function(node) != own;
        return is_callee ? function(node) : static_cast<std::uint32_t>(tree.functions.size());
    };
    for_each_outermost(tree, tree.functions.size() + 1, called, [&](std::uint32_t node) {
        if (called(node) < tree.functions.size()) callees[function(node)] += tree.nodes[node].all.total;
    });
    for (std::uint32_t node = 1; node < tree.nodes.size(); ++node) {
        if (function(node) == own) details.count.own += tree.nodes[node].all.own;
    }
    details.callers = others_of(tree, callers);
    details.callees = others_of(tree, callees);
}

std::map<std::int32_t, TopCount> lines_of(const TopTree& tree, const TopFunction& function) {
    std::map<std::int32_t, TopCount> lines;
    for_each_outermost(
        tree, tree.functions.size(), [&](std::uint32_t node) { return tree.nodes[node].function; },
        [&](std::uint32_t node) {
            const TopFunction& what = tree.functions[tree.nodes[node].function];
            if (is_same(what, function)) lines[what.line].total += tree.nodes[node].all.total;
        });
    for (std::uint32_t node = 1; node < tree.nodes.size(); ++node) {
        const TopFunction& what = tree.functions[tree.nodes[node].function];
        if (is_same(what, function)) lines[what.line].own += tree.nodes[node].all.own;
    }
    return lines;
}

}  // namespace

TopDetails make_details(const std::vector<TopSource>& since_start, const TopFunction& function, const std::vector<std::string>& source,
                        const std::string& note) {
    TopDetails details;
    details.name = function.name;
    details.where = function.file.empty() ? function.module : function.file;
    details.note = note;
    const TopTree tree = make_top_tree({}, since_start, false);
    details.samples = tree.nodes.front().all.total;
    for (std::uint32_t i = 0; i < tree.functions.size(); ++i) {
        if (is_same(tree.functions[i], function)) add_neighbours(details, tree, i);
    }
    const auto counts = lines_of(make_top_tree({}, since_start, true), function);
    std::map<std::int32_t, TopCount> shown;
    for (const auto& [line, count] : counts) {
        if (line > 0) shown[line] = count;
    }
    if (shown.empty()) return details;
    const std::int32_t last = std::min(shown.rbegin()->first + kAround, static_cast<std::int32_t>(source.size()));
    for (std::int32_t line = std::max(shown.begin()->first - kAround, 1); line <= last; ++line) shown.try_emplace(line);
    for (const auto& [line, count] : shown) {
        const auto index = static_cast<std::size_t>(line - 1);
        details.lines.push_back({line, count, index < source.size() ? source[index] : std::string()});
    }
    return details;
}

}  // namespace pyprof
