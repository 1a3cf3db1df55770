// SPDX-License-Identifier: Apache-2.0
//
// Standard errors of the times and shares of a tree, by the rule of docs/watch.md: that of a time from how it changed
// between neighbouring looks, that of a share from how it and its base changed together.
#pragma once

#include "live/sample_series.h"
#include "live/top_tree.h"

#include <cstdint>
#include <vector>

namespace pyprof {

struct SeriesOfTree {
    const SampleSeries& series;
    std::vector<std::uint32_t> node_of_key;  // of the tree
    bool is_last_interval = false;           // else since the start
};

// Fills in the errors of the nodes, or of the rows and of the threads, of a tree with its counts.
void add_errors(TopTree& tree, const std::vector<SeriesOfTree>& series, TopErrorsOf what);

}  // namespace pyprof
