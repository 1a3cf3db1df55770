// SPDX-License-Identifier: Apache-2.0
//
// Greenlets that wait within a task (SQLAlchemy's way of calling synchronous code from a coroutine): a coroutine
// holds the greenlet in a variable and awaits what the greenlet has handed to it. Only with that proof, the awaited
// object among the variables of the greenlet's innermost frames, do its frames come between the two.
#pragma once

#include "python/frame_locals.h"
#include "python/frames.h"
#include "python/object_kinds.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <array>
#include <cstdint>
#include <vector>

namespace pyprof {

class GreenletReader {
public:
    // `probe` reads what may not be there at all; everything else is read through the memory that is given.
    GreenletReader(const Layout& layout, ObjectKinds& kinds, Memory& probe)
        : layout_(&layout), kinds_(&kinds), probe_(&probe), shape_(layout) {}

    // The frames of the greenlet that a variable of `holder` refers to and that has handed `awaited` to it,
    // outermost first; empty where there is none.
    void find_between(Memory& memory, const RawFrame& holder, Address awaited, std::vector<RawFrame>& frames);
    // The frames of a suspended greenlet, leaf first. False: it runs, has ended or has not begun, or can't be read.
    [[nodiscard]] bool read_frames(Memory& memory, Address greenlet, std::vector<RawFrame>& frames);

private:
    static constexpr std::size_t kPimplWords = 32;
    using Pimpl = std::array<std::uint64_t, kPimplWords>;
    [[nodiscard]] Address find_top_frame(Memory& memory, Address greenlet);
    // Which words of a pimpl are the greenlet itself and its frame, learned from the first one that is suspended.
    [[nodiscard]] bool learn_words(const Pimpl& words, Address greenlet);

    const Layout* layout_;
    ObjectKinds* kinds_;
    Memory* probe_;
    bool knows_words_ = false;
    std::size_t self_word_ = 0;
    std::size_t frame_word_ = 0;
    FrameShape shape_;
    std::vector<Address> locals_;
    std::vector<Address> inner_locals_;
    std::vector<std::byte> copy_;
};

}  // namespace pyprof
