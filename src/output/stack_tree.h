// SPDX-License-Identifier: Apache-2.0
//
// The stacks of all threads as one tree of labels, for formats that show sums and not time. Frames with
// equal labels are one. It never loses a sample: the root's total is the profile's.
#pragma once

#include <pyprof/profile.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace pyprof {

struct StackTree {
    struct Node {
        std::uint32_t parent = 0;
        std::uint32_t label = 0;  // of node 0: meaningless
        std::uint32_t depth = 0;
        std::uint64_t self = 0;   // samples that end here
        std::uint64_t total = 0;  // and those of all nodes below
    };
    std::vector<std::string> labels;    // sorted, each one once
    std::vector<std::uint32_t> frames;  // of each label a frame that has it
    std::vector<Node> nodes;        // depth first, siblings in the order of their labels; node 0 is the root
    std::uint64_t cut_samples = 0;  // of stacks that are deeper than this tree; they count where they end
};

struct TreeOptions {
    bool inverted = false;  // leaves at the root; thread roots stay roots
    std::uint32_t max_depth = std::numeric_limits<std::uint32_t>::max();
};
[[nodiscard]] StackTree build_tree(const ResolvedProfile& profile, const TreeOptions& options);

}  // namespace pyprof
