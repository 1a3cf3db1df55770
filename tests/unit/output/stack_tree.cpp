// SPDX-License-Identifier: Apache-2.0
//
// The tree of labels and what of it a flame graph draws. Numbers are counted by hand.
#include "output/stack_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "output/flame_layout.h"
#include "unit/output/sample_profiles.h"

using namespace pyprof;
using pyprof::test::ProfileBuilder;

namespace {

// "label depth self total" of each node, in order.
std::vector<std::string> lines_of(const StackTree& tree) {
    std::vector<std::string> lines;
    for (const StackTree::Node& node : tree.nodes) {
        const std::string label = node.depth == 0 ? "*" : tree.labels[node.label];
        lines.push_back(label + " " + std::to_string(node.depth) + " " + std::to_string(node.self) + " " +
                        std::to_string(node.total));
    }
    return lines;
}

using Lines = std::vector<std::string>;

struct Simple : ProfileBuilder {
    ThreadIndex main = thread(1, "main", true);
    ThreadIndex worker = thread(2, "worker");
    std::uint32_t a = python("a", "m.py", 1);
    std::uint32_t b = python("b", "m.py", 2);
    std::uint32_t c = python("c", "m.py", 3);
    Simple() {
        add(main, {a, c}, 2);
        add(main, {a, b}, 3);
        add(worker, {a, b, c}, 4);
        add(worker, {a}, 1);
    }
};

TreeOptions inverted() {
    TreeOptions options;
    options.inverted = true;
    return options;
}

TreeOptions rows(std::uint32_t max_depth) {
    TreeOptions options;
    options.max_depth = max_depth;
    return options;
}

}  // namespace

TEST_CASE("stack tree: threads add up, siblings stand in the order of their labels") {
    Simple simple;
    CHECK(lines_of(build_tree(simple.profile(), {})) ==
          Lines{"* 0 0 10", "a (m.py:1) 1 1 10", "b (m.py:2) 2 3 7", "c (m.py:3) 3 4 4", "c (m.py:3) 2 2 2"});
}

TEST_CASE("stack tree: inverted begins with the leaves") {
    Simple simple;
    CHECK(lines_of(build_tree(simple.profile(), inverted())) ==
          Lines{"* 0 0 10", "a (m.py:1) 1 1 1", "b (m.py:2) 1 0 3", "a (m.py:1) 2 3 3", "c (m.py:3) 1 0 6",
                "a (m.py:1) 2 2 2", "b (m.py:2) 2 0 4", "a (m.py:1) 3 4 4"});
}

TEST_CASE("stack tree: inverted keeps thread roots at the root") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "main", true);
    const auto root = builder.marker("[thread main]");
    builder.add(main, {root, builder.python("a", "m.py", 1), builder.python("b", "m.py", 2)}, 5);
    builder.add(main, {root}, 1);
    builder.profile().facts.with_threads = true;
    CHECK(lines_of(build_tree(builder.profile(), inverted())) ==
          Lines{"* 0 0 6", "[thread main] 1 1 6", "b (m.py:2) 2 0 5", "a (m.py:1) 3 5 5"});
}

TEST_CASE("stack tree: frames with equal labels are one") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "main", true);
    builder.add(main, {builder.python("f", "x.py", "/lib/python3.9/site-packages/x.py", 1)}, 1);
    builder.add(main, {builder.python("f", "x.py", "/other/site-packages/x.py", 1)}, 2);
    const StackTree tree = build_tree(builder.profile(), {});
    CHECK(lines_of(tree) == Lines{"* 0 0 3", "f (x.py:1) 1 3 3"});
    CHECK(tree.labels.size() == 1);
}

TEST_CASE("stack tree: what is deeper than asked for counts where it was cut") {
    Simple simple;
    const StackTree tree = build_tree(simple.profile(), rows(2));
    CHECK(lines_of(tree) == Lines{"* 0 0 10", "a (m.py:1) 1 1 10", "b (m.py:2) 2 7 7", "c (m.py:3) 2 2 2"});
    CHECK(tree.cut_samples == 4);

    TreeOptions options = inverted();
    options.max_depth = 1;
    const StackTree leaves = build_tree(simple.profile(), options);
    CHECK(lines_of(leaves) == Lines{"* 0 0 10", "a (m.py:1) 1 1 1", "b (m.py:2) 1 3 3", "c (m.py:3) 1 6 6"});
    CHECK(leaves.cut_samples == 9);
}

TEST_CASE("stack tree: an empty profile is a root") {
    CHECK(lines_of(build_tree(test::empty_profile(), {})) == Lines{"* 0 0 0"});
    CHECK(lines_of(build_tree(test::empty_profile(), inverted())) == Lines{"* 0 0 0"});
}

TEST_CASE("flame layout: children stand within their parent, from its left edge on") {
    Simple simple;
    const FlameLayout layout = lay_out(build_tree(simple.profile(), {}), {});
    REQUIRE(layout.boxes.size() == 5);
    CHECK(layout.total == 10);
    CHECK(layout.rows == 4);
    CHECK(layout.narrow_boxes == 0);
    const std::uint64_t expected[][3] = {{0, 0, 10}, {1, 0, 10}, {2, 0, 7}, {3, 0, 4}, {2, 7, 2}};
    for (std::size_t i = 0; i < layout.boxes.size(); ++i) {
        CHECK(layout.boxes[i].row == expected[i][0]);
        CHECK(layout.boxes[i].begin == expected[i][1]);
        CHECK(layout.boxes[i].samples == expected[i][2]);
    }
}

TEST_CASE("flame layout: of too many boxes the narrowest and deepest go and are counted") {
    Simple simple;
    FlameLimits limits;
    limits.max_boxes = 3;
    FlameLayout layout = lay_out(build_tree(simple.profile(), {}), limits);
    CHECK(layout.boxes.size() == 3);
    CHECK(layout.narrow_boxes == 2);
    CHECK(layout.narrow_samples == 4);
    CHECK(layout.rows == 3);

    // All equally wide: a chain of 100, of which the upper part stays.
    ProfileBuilder builder;
    std::vector<std::uint32_t> frames;
    for (std::int32_t i = 0; i < 100; ++i) frames.push_back(builder.python("f", "m.py", i + 1));
    builder.add(builder.thread(1, "main", true), frames, 1);
    limits.max_boxes = 10;
    layout = lay_out(build_tree(builder.profile(), {}), limits);
    CHECK(layout.boxes.size() == 10);
    CHECK(layout.rows == 10);
    CHECK(layout.narrow_boxes == 91);
    CHECK(layout.narrow_samples == 1);
}

TEST_CASE("flame layout: a large tree stays within its limit and whole") {
    const StackTree tree = build_tree(test::wide_profile(20'000), {});
    const FlameLimits limits;
    REQUIRE(tree.nodes.size() > limits.max_boxes);
    const FlameLayout layout = lay_out(tree, limits);
    CHECK(layout.boxes.size() <= limits.max_boxes);
    CHECK(layout.boxes.size() + layout.narrow_boxes == tree.nodes.size());
    // Each box lies within the last box of the row above.
    std::vector<FlameBox> open;
    bool is_nested = true;
    for (const FlameBox& box : layout.boxes) {
        is_nested = is_nested && box.row <= open.size();
        open.resize(std::min<std::size_t>(box.row, open.size()));
        if (!open.empty()) {
            is_nested = is_nested && box.begin >= open.back().begin &&
                        box.begin + box.samples <= open.back().begin + open.back().samples;
        }
        open.push_back(box);
    }
    CHECK(is_nested);
}
