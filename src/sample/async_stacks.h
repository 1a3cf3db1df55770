// SPDX-License-Identifier: Apache-2.0
//
// Puts logical stacks together in the profile's trie: thread root, tasks with their coroutines, and what
// runs on top. What stands on a thread keeps the path by which its proof is decided at the end; what was read
// of tasks is certain or is not put here at all. Nothing here reads the target.
#pragma once

#include "sample/stack_builder.h"

#include <tsl/robin_map.h>

#include <cstdint>
#include <string_view>

namespace pyprof {

class AsyncStacks {
public:
    AsyncStacks(CodeCache& codes, StackTable& stacks, StackBuilder& builder);

    // A node of the trie, and the codes whose names stand on the way to it.
    struct Place {
        StackId stack = kRootStack;
        PathId names = kRootPath;
        friend bool operator==(const Place&, const Place&) = default;
    };
    [[nodiscard]] Place root() const { return {kRootStack, separate_}; }

    // "[text]" on top of `place`.
    Place marker(Place place, std::string_view text);
    // A frame that is known by its names alone; it is taken for certain.
    Place add_plain(Place place, FrameId frame);
    // Steps [begin, end) of a coroutine chain. They are taken for certain.
    Place add_coroutines(Place place, const StackBuilder::Chain& chain, std::size_t begin, std::size_t end);
    // Steps [begin, end) of a thread's chain; their proof stays that of their path on the thread.
    Place add_steps(Place place, const StackBuilder::Chain& chain, std::size_t begin, std::size_t end);

    // What add_steps() would add to the names.
    [[nodiscard]] PathId names_of(PathId names, const StackBuilder::Chain& chain, std::size_t begin, std::size_t end);

    // Codes were dropped: what was remembered by their serial numbers stays right, by their indices not.
    [[nodiscard]] std::size_t size() const { return edges_.size(); }

private:
    static constexpr std::size_t kMaxEdges = 1U << 20;

    struct EdgeKey {
        std::uint32_t stack, serial, path;
        std::int32_t instruction;
        bool operator==(const EdgeKey&) const = default;
    };
    struct EdgeHash {
        std::size_t operator()(const EdgeKey& key) const;
    };
    Place add_frame(Place place, const StackBuilder::Step& step, PathId proof);

    CodeCache& codes_;
    StackTable& stacks_;
    StackBuilder& builder_;
    PathId separate_;
    tsl::robin_map<EdgeKey, Place, EdgeHash> edges_;
};

}  // namespace pyprof
