// SPDX-License-Identifier: Apache-2.0
//
// Frames, strings and stacks as small ids in append-only tables (StackTable). One thread writes, any
// may read what is published: memory grows with what is new, not with time.
#pragma once

#include <cstdint>

namespace pyprof {

enum class StringId : std::uint32_t {};
enum class FrameId : std::uint32_t {};
enum class StackId : std::uint32_t {};  // a node of the trie; its parent is the caller
enum class PathId : std::uint32_t {};   // a chain of code objects, root to leaf, without lines

constexpr StringId kNoString{0};  // the empty string
constexpr StackId kRootStack{0};  // the empty stack
constexpr PathId kRootPath{0};    // the empty path; always proved

constexpr std::uint32_t raw(StringId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t raw(FrameId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t raw(StackId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t raw(PathId id) { return static_cast<std::uint32_t>(id); }

enum class FrameKind : std::uint8_t {
    kPython,
    kMarker,  // not a frame of the program; its name stands in brackets: "[gc]", "[unproved]"
    kNative,
    // No frame: the callers of a sample whose path was not proved when it was taken, as far as they are sure, stand below
    // this node. Its path is that of the stack number `line`, which it becomes once that path is proved.
    kUnproved,
};

// `name` is the qualified name from 3.11 on, else the plain one. `file` is the path as the target
// gave it; exporters shorten it. `line` is 0 where unknown or not wanted. A native frame has neither name nor
// file: its `line` is the number under which NativeNames knows its address.
struct Frame {
    FrameKind kind = FrameKind::kPython;
    StringId name = kNoString;
    StringId file = kNoString;
    std::int32_t line = 0;
    friend bool operator==(const Frame&, const Frame&) = default;
};

}  // namespace pyprof
