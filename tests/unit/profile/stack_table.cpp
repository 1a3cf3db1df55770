// SPDX-License-Identifier: Apache-2.0
//
// The tables of a recording: interning, proofs, and one writer beside one reader (run under TSan).
#include <pyprof/profile.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

using namespace pyprof;

TEST_CASE("stack table: begins with the empty string, the empty stack and the proved empty path") {
    const StackTable table;
    CHECK(table.string(kNoString).empty());
    CHECK(table.stack_count() == 1);
    CHECK(table.path_count() == 1);
    CHECK(table.frame_count() == 0);
    CHECK(table.is_proved(kRootPath));
    CHECK(table.parent_path(kRootPath) == kRootPath);
}

TEST_CASE("stack table: equal arguments give equal ids, different ones different ids") {
    StackTable table;
    const StringId spam = table.intern_string("spam");
    CHECK(table.intern_string(std::string("sp") + "am") == spam);
    CHECK(table.intern_string("eggs") != spam);
    CHECK(table.intern_string("") == kNoString);
    CHECK(table.string(spam) == "spam");

    const Frame frame{FrameKind::kPython, spam, kNoString, 7};
    Frame other = frame;
    other.line = 8;
    const FrameId id = table.intern_frame(frame);
    CHECK(table.intern_frame(frame) == id);
    CHECK(table.intern_frame(other) != id);
    other = frame;
    other.kind = FrameKind::kMarker;
    CHECK(table.intern_frame(other) != id);
    CHECK(table.frame(id) == frame);

    const PathId path = table.intern_path(kRootPath, 3);
    CHECK(table.intern_path(kRootPath, 3) == path);
    CHECK(table.intern_path(path, 3) != path);
    CHECK(table.intern_path(kRootPath, 4) != path);

    const StackId node = table.intern_child(kRootStack, id, path);
    CHECK(table.intern_child(kRootStack, id, path) == node);
    CHECK(table.intern_child(kRootStack, id, kRootPath) != node);
    CHECK(table.intern_child(node, id, path) != node);
    CHECK(table.node(node).parent == kRootStack);
    CHECK(table.node(node).frame == id);
    CHECK(table.node(node).path == path);
}

TEST_CASE("stack table: a proof covers every prefix and nothing else") {
    StackTable table;
    const PathId main = table.intern_path(kRootPath, 1);
    const PathId left = table.intern_path(main, 2);
    const PathId leaf = table.intern_path(left, 3);
    const PathId right = table.intern_path(main, 4);
    table.prove(left);
    CHECK(table.is_proved(main));
    CHECK(table.is_proved(left));
    CHECK_FALSE(table.is_proved(leaf));
    CHECK_FALSE(table.is_proved(right));
    table.prove(leaf);
    CHECK(table.is_proved(leaf));
    CHECK_FALSE(table.is_proved(right));
}

TEST_CASE("stack table: bytes that are no UTF-8 become U+FFFD, equal ones one string") {
    StackTable table;
    const StringId id = table.intern_string("caf\xE9");
    CHECK(table.string(id) == "caf\xEF\xBF\xBD");
    CHECK(table.intern_string("caf\xE9") == id);
    CHECK(table.intern_string("caf\xEF\xBF\xBD") == id);
    CHECK(table.string(table.intern_string("caf\xC3\xA9")) == "caf\xC3\xA9");
    CHECK(table.string(table.intern_string(std::string("a\0b", 3))) == std::string("a\0b", 3));
}

TEST_CASE("stack table: references stay valid while the tables grow over many chunks") {
    StackTable table;
    const StringId name = table.intern_string("a name that is longer than what fits into the object itself");
    const std::string_view view = table.string(name);
    const Frame& frame = table.frame(table.intern_frame({FrameKind::kPython, name, kNoString, 0}));
    StackId leaf = kRootStack;
    PathId path = kRootPath;
    for (std::int32_t i = 0; i < 200'000; ++i) {
        table.intern_string(std::to_string(i));
        path = table.intern_path(path, 0);
        leaf = table.intern_child(leaf, table.intern_frame({FrameKind::kPython, name, kNoString, i}), path);
    }
    CHECK(view == "a name that is longer than what fits into the object itself");
    CHECK(frame.name == name);
    CHECK(table.stack_count() == 200'001);
    CHECK(table.path_count() == 200'001);
    CHECK(table.frame_count() == 200'000);
    table.prove(path);
    std::size_t depth = 0;
    bool all_proved = true;
    for (StackId id = leaf; id != kRootStack; id = table.node(id).parent) {
        all_proved = all_proved && table.is_proved(table.node(id).path);
        ++depth;
    }
    CHECK(depth == 200'000);
    CHECK(all_proved);
}

TEST_CASE("stack table: a reader walks whole stacks while the writer goes on") {
    StackTable table;
    std::atomic<std::uint32_t> published{0};
    constexpr std::int32_t kStacks = 20'000;

    std::thread writer([&] {
        StackId leaf = kRootStack;
        PathId path = kRootPath;
        for (std::int32_t i = 0; i < kStacks; ++i) {
            if (i % 50 == 0) {
                leaf = kRootStack;
                path = kRootPath;
            }
            const StringId name = table.intern_string("function_" + std::to_string(i));
            path = table.intern_path(path, static_cast<std::uint32_t>(i));
            leaf =
                table.intern_child(leaf, table.intern_frame({FrameKind::kPython, name, kNoString, i}), path);
            table.prove(path);
            published.store(raw(leaf), std::memory_order_relaxed);  // the tables alone must publish
        }
    });

    std::uint32_t last = 0;
    bool is_sound = true;
    while (last < static_cast<std::uint32_t>(kStacks)) {
        // An id may overtake its element here; a real ring has release and acquire of its own.
        const std::uint32_t seen = published.load(std::memory_order_relaxed);
        last = std::min(seen, static_cast<std::uint32_t>(table.stack_count()) - 1);
        for (StackId id{last}; id != kRootStack; id = table.node(id).parent) {
            const Frame& frame = table.frame(table.node(id).frame);
            is_sound = is_sound && table.string(frame.name) == "function_" + std::to_string(frame.line);
            is_sound =
                is_sound && raw(table.node(id).parent) < raw(id) && raw(table.node(id).path) == raw(id);
            static_cast<void>(table.is_proved(table.node(id).path));
        }
    }
    writer.join();
    CHECK(is_sound);
    CHECK(table.is_proved(table.node(StackId{last}).path));
}
