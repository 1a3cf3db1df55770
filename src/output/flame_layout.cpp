// SPDX-License-Identifier: Apache-2.0
//
// Where boxes have to go, the narrowest go first and of equals the deepest. A child is never wider than
// its parent and always deeper, so that what stays is a tree.
#include "output/flame_layout.h"

#include <algorithm>

namespace pyprof {
namespace {

struct Rank {
    std::uint64_t samples = 0;
    std::uint32_t depth = 0;
    bool goes_before(const Rank& other) const {
        return samples != other.samples ? samples > other.samples : depth < other.depth;
    }
};

// The first that is left out, so that at most max_boxes go before it; depth 0 of no samples: none is.
Rank first_left_out(const StackTree& tree, std::size_t max_boxes) {
    if (tree.nodes.size() <= max_boxes) return {};
    std::vector<Rank> ranks;
    ranks.reserve(tree.nodes.size());
    for (const StackTree::Node& node : tree.nodes) ranks.push_back({node.total, node.depth});
    const auto first_out = ranks.begin() + static_cast<std::ptrdiff_t>(max_boxes);
    std::nth_element(ranks.begin(), first_out, ranks.end(),
                     [](const Rank& a, const Rank& b) { return a.goes_before(b); });
    return *first_out;
}

}  // namespace

FlameLayout lay_out(const StackTree& tree, const FlameLimits& limits) {
    FlameLayout layout;
    layout.total = tree.nodes.front().total;
    const Rank limit = first_left_out(tree, std::max<std::size_t>(limits.max_boxes, 1));
    std::vector<std::uint64_t> next{0};  // where the next box of each row begins
    for (const StackTree::Node& node : tree.nodes) {
        const std::uint64_t begin = next[node.depth];
        next.resize(node.depth + 1);
        next[node.depth] = begin + node.total;
        next.push_back(begin);
        const bool is_root = node.depth == 0;
        if (!is_root && node.total == 0) continue;
        if (!is_root && !Rank{node.total, node.depth}.goes_before(limit)) {
            ++layout.narrow_boxes;
            layout.narrow_samples = std::max(layout.narrow_samples, node.total);
            continue;
        }
        layout.boxes.push_back({node.depth, node.label, begin, node.total});
        layout.rows = std::max(layout.rows, node.depth + 1);
    }
    return layout;
}

}  // namespace pyprof
