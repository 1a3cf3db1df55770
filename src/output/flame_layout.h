// SPDX-License-Identifier: Apache-2.0
//
// Which boxes a flame graph has and where they stand, in samples and rows. It must never leave anything
// out in silence: what is too narrow or too deep to be drawn is counted here for the picture to say.
#pragma once

#include <cstdint>
#include <vector>

#include "output/stack_tree.h"

namespace pyprof {

struct FlameLimits {
    std::size_t max_boxes = 20'000;  // a browser stays quick; beyond some 50,000 it does not
    std::uint32_t max_rows = 500;
};

struct FlameBox {
    std::uint32_t row = 0;      // 0: the root, all samples
    std::uint32_t label = 0;    // of the root: meaningless
    std::uint64_t begin = 0;    // in samples from the left
    std::uint64_t samples = 0;  // its width
};

struct FlameLayout {
    std::vector<FlameBox> boxes;  // parents before children, from left to right
    std::uint64_t total = 0;
    std::uint32_t rows = 1;
    std::uint64_t narrow_boxes = 0;    // left out
    std::uint64_t narrow_samples = 0;  // the most that one of those has
};

[[nodiscard]] FlameLayout lay_out(const StackTree& tree, const FlameLimits& limits);

}  // namespace pyprof
