// SPDX-License-Identifier: Apache-2.0
//
// What a greenlet is at: whether it runs, its frames where it is suspended, the main greenlet of its thread.
//
// Some wait within a task (SQLAlchemy's way of calling synchronous code from a coroutine): a coroutine
// holds the greenlet in a variable and awaits what the greenlet has handed to it. Only with that proof, the awaited
// object among the variables of the greenlet's innermost frames, do its frames come between the two. One that runs has
// nothing below its outermost frame: its callers are those of the main greenlet of its thread, with the same variable.
#pragma once

#include "python/frame_locals.h"
#include "python/frames.h"
#include "python/object_kinds.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace pyprof {

enum class GreenletState : std::uint8_t {
    kUnreadable,  // no greenlet, or none whose words are known
    kUnbegun,
    kSuspended,
    kFrameless,   // the same, and no Python frame is its own: it waits in C or Cython alone
    kRunning,     // its frames are those of its thread
    kEnded,
};

struct Greenlet {
    GreenletState state = GreenletState::kUnreadable;
    bool is_main = false;  // of its thread
    Address main{};        // that one, or itself; null where it is not known, as before it has begun
    Address parent{};      // null: none is known
    Address pimpl{};
};

class GreenletReader {
public:
    // `probe` reads what may not be there at all; everything else is read through the memory that is given.
    GreenletReader(const Layout& layout, ObjectKinds& kinds, Memory& probe)
        : layout_(&layout), kinds_(&kinds), probe_(&probe), shape_(layout) {}

    // The greenlet that a variable of `holder` refers to and that has handed `awaited` to it, and its frames, outermost first;
    // null, and empty, where there is none.
    Address find_between(Memory& memory, const RawFrame& holder, Address awaited, std::vector<RawFrame>& frames);
    // The same where what is awaited is a coroutine that executes, known by its frame.
    Address find_between_frames(Memory& memory, const RawFrame& holder, Address awaited_frame, std::vector<RawFrame>& frames);
    // What has switched to the greenlet that runs in the thread of `main`: the frames of `main`, leaf first, if one of its
    // innermost ones holds the greenlet in a variable. False: none runs there that is known to be called so.
    [[nodiscard]] bool find_callers(Memory& memory, Address main, std::vector<RawFrame>& frames);
    // The frames of a suspended greenlet, leaf first. False: it runs, has ended or has not begun, or can't be read.
    [[nodiscard]] bool read_frames(Memory& memory, Address greenlet, std::vector<RawFrame>& frames);

    // Of an object that is a greenlet by its type. Nothing is known before one was seen that is suspended.
    [[nodiscard]] Greenlet read(Memory& memory, Address greenlet);

private:
    static constexpr std::size_t kPimplWords = 32;
    using Pimpl = std::array<std::uint64_t, kPimplWords>;
    template <class IsAwaited>
    Address find_held(Memory& memory, const RawFrame& holder, IsAwaited&& is_awaited, std::vector<RawFrame>& frames);
    // Nothing where they can't be read, or are not known yet.
    [[nodiscard]] std::optional<Pimpl> read_words(Memory& memory, Address greenlet);
    [[nodiscard]] bool has_frame(Memory& memory, const Pimpl& words);
    [[nodiscard]] Address find_top_frame(Memory& memory, Address greenlet);
    // Which words of a pimpl are the greenlet itself and its frame, learned from the first one that is suspended.
    [[nodiscard]] bool learn_words(const Pimpl& words, Address greenlet);
    // Who runs in the thread of a main greenlet; null where that can't be told.
    [[nodiscard]] Address current_of(Memory& memory, Address main);
    [[nodiscard]] Address current_in(Memory& memory, Address state, Address main) const;
    // Which one is the main greenlet, learned from the first one that is none itself.
    void learn_main(const Pimpl& words);

    const Layout* layout_;
    ObjectKinds* kinds_;
    Memory* probe_;
    bool knows_words_ = false;
    std::size_t self_word_ = 0;
    std::size_t frame_word_ = 0;
    std::size_t main_word_ = 0;   // 0: not known
    std::size_t state_word_ = 0;  // of a main one: its ThreadState; 0: not known
    FrameShape shape_;
    std::vector<Address> locals_;
    std::vector<Address> inner_locals_;
    std::vector<std::byte> copy_;
};

}  // namespace pyprof
