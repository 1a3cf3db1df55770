// SPDX-License-Identifier: Apache-2.0
//
// Three steps: give each distinct label a number in sorted order, build the tree with a hash map from
// (parent, label) to node, then number the nodes depth first. No step recurses: stacks can be 10,000
// frames deep.
#include "output/stack_tree.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "profile/hash.h"

namespace pyprof {
namespace {

// Inverted, a stack shares few nodes with others; so many take some 250 MB.
constexpr std::size_t kMaxInvertedNodes = 4'000'000;

class Builder {
public:
    Builder(const ResolvedProfile& profile, const TreeOptions& options)
        : profile_(profile), options_(options) {
        sort_labels();
        nodes_.push_back({});
    }

    StackTree run() {
        options_.inverted ? add_inverted() : add_upright();
        for (std::size_t i = nodes_.size(); i-- > 0;) {
            nodes_[i].total += nodes_[i].self;
            if (i > 0) nodes_[nodes_[i].parent].total += nodes_[i].total;
        }
        order_depth_first();
        return std::move(tree_);
    }

private:
    void sort_labels() {
        std::vector<std::string> text;
        for (const ResolvedProfile::Frame& frame : profile_.frames) text.push_back(label_of(frame));
        std::vector<std::uint32_t> order(text.size());
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return text[a] < text[b]; });
        label_of_frame_.resize(text.size());
        for (const std::uint32_t frame : order) {
            if (tree_.labels.empty() || tree_.labels.back() != text[frame]) {
                tree_.labels.push_back(text[frame]);
                tree_.frames.push_back(frame);
            }
            label_of_frame_[frame] = static_cast<std::uint32_t>(tree_.labels.size() - 1);
        }
    }

    // Parents come before children in the profile, so that one pass maps node to node.
    void add_upright() {
        std::vector<std::uint32_t> mapped(profile_.nodes.size(), 0);
        std::vector<bool> is_cut(profile_.nodes.size(), false);
        for (std::uint32_t node = 1; node < profile_.nodes.size(); ++node) {
            const std::uint32_t parent = mapped[profile_.nodes[node].parent];
            is_cut[node] = nodes_[parent].depth >= options_.max_depth;
            mapped[node] = is_cut[node] ? parent : child(parent, label_at(node));
        }
        for (const ResolvedProfile::Weight& weight : profile_.weights) {
            nodes_[mapped[weight.node]].self += weight.samples;
            if (is_cut[weight.node]) tree_.cut_samples += weight.samples;
        }
    }

    void add_inverted() {
        for (const ResolvedProfile::Weight& weight : profile_.weights) {
            std::uint32_t node = 0;
            std::uint32_t stop = 0;
            if (profile_.facts.with_threads && weight.node != 0) {
                stop = outermost(weight.node);
                node = child(0, label_at(stop));
            }
            std::uint32_t from = weight.node;
            while (from != stop && nodes_[node].depth < options_.max_depth &&
                   nodes_.size() < kMaxInvertedNodes) {
                node = child(node, label_at(from));
                from = profile_.nodes[from].parent;
            }
            if (from != stop) tree_.cut_samples += weight.samples;
            nodes_[node].self += weight.samples;
        }
    }

    [[nodiscard]] std::uint32_t outermost(std::uint32_t node) const {
        while (profile_.nodes[node].parent != 0) node = profile_.nodes[node].parent;
        return node;
    }

    [[nodiscard]] std::uint32_t label_at(std::uint32_t node) const {
        return label_of_frame_[profile_.nodes[node].frame];
    }

    std::uint32_t child(std::uint32_t parent, std::uint32_t label) {
        const auto [entry, is_new] =
            children_.try_emplace(pair(parent, label), static_cast<std::uint32_t>(nodes_.size()));
        if (is_new) nodes_.push_back({parent, label, nodes_[parent].depth + 1, 0, 0});
        return entry->second;
    }

    void order_depth_first() {
        std::vector<std::uint32_t> by_parent(nodes_.size() - 1);
        std::iota(by_parent.begin(), by_parent.end(), 1U);
        // The last sibling first: the walk below takes them from the end of its list.
        std::sort(by_parent.begin(), by_parent.end(), [&](std::uint32_t a, std::uint32_t b) {
            return std::pair(nodes_[a].parent, nodes_[b].label) <
                   std::pair(nodes_[b].parent, nodes_[a].label);
        });
        std::vector<std::size_t> first_child(nodes_.size() + 1, by_parent.size());
        for (std::size_t i = by_parent.size(); i-- > 0;) first_child[nodes_[by_parent[i]].parent] = i;

        tree_.nodes.reserve(nodes_.size());
        std::vector<std::pair<std::uint32_t, std::uint32_t>> pending{
            {0, 0}};  // node, its parent's new number
        while (!pending.empty()) {
            const auto [node, parent] = pending.back();
            pending.pop_back();
            const auto number = static_cast<std::uint32_t>(tree_.nodes.size());
            tree_.nodes.push_back(nodes_[node]);
            tree_.nodes.back().parent = parent;
            for (std::size_t i = first_child[node]; i < by_parent.size(); ++i) {
                if (nodes_[by_parent[i]].parent != node) break;
                pending.emplace_back(by_parent[i], number);
            }
        }
    }

    const ResolvedProfile& profile_;
    TreeOptions options_;
    StackTree tree_;
    std::vector<std::uint32_t> label_of_frame_;
    std::vector<StackTree::Node> nodes_;  // in the order of their making: parents first
    tsl::robin_map<std::uint64_t, std::uint32_t, MixHash> children_;
};

}  // namespace

StackTree build_tree(const ResolvedProfile& profile, const TreeOptions& options) {
    return Builder(profile, options).run();
}

}  // namespace pyprof
