// SPDX-License-Identifier: Apache-2.0
//
// A child is never wider than its parent, so that one threshold on the width leaves a tree.
#include "output/flame_layout.h"

#include <algorithm>
#include <functional>

namespace pyprof {
namespace {

// The smallest width at which no more than max_boxes boxes are left.
std::uint64_t least_samples(const StackTree& tree, std::size_t max_boxes) {
    if (tree.nodes.size() <= max_boxes) return 1;
    std::vector<std::uint64_t> widths;
    for (const StackTree::Node& node : tree.nodes) widths.push_back(node.total);
    const auto first_out = widths.begin() + static_cast<std::ptrdiff_t>(max_boxes);
    std::nth_element(widths.begin(), first_out, widths.end(), std::greater<>());
    return *first_out + 1;
}

}  // namespace

FlameLayout lay_out(const StackTree& tree, const FlameLimits& limits) {
    FlameLayout layout;
    layout.total = tree.nodes.front().total;
    layout.least_samples = least_samples(tree, std::max<std::size_t>(limits.max_boxes, 1));
    std::vector<std::uint64_t> next{0};  // where the next box of each row begins
    for (const StackTree::Node& node : tree.nodes) {
        const std::uint64_t begin = next[node.depth];
        next.resize(node.depth + 1);
        next[node.depth] = begin + node.total;
        next.push_back(begin);
        const bool is_root = node.depth == 0;
        if (!is_root && node.total == 0) continue;
        if (!is_root && node.total < layout.least_samples) {
            ++layout.narrow_boxes;
            continue;
        }
        layout.boxes.push_back({node.depth, node.label, begin, node.total});
        layout.rows = std::max(layout.rows, node.depth + 1);
    }
    return layout;
}

}  // namespace pyprof
