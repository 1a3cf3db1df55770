// SPDX-License-Identifier: Apache-2.0
//
// The chain of what a coroutine awaits: cr_await, and what that one awaits, down to a future or to something
// that has no Python frame. Only suspended coroutines have one: of a coroutine that executes, what stands
// above it is on its thread's stack.
#pragma once

#include "python/asyncio_layouts.h"
#include "python/frames.h"
#include "python/greenlets.h"
#include "python/object_kinds.h"

#include <pyprof/memory.h>

#include <cstdint>
#include <vector>

namespace pyprof {

enum class CoroutineState : std::uint8_t {
    kInvalid,    // what stands there is no such state
    kCreated,    // not begun
    kSuspended,  // at a yield, or what it awaits can't be told
    kAwaiting,   // suspended, and awaits an object
    kExecuting,
    kFinished,
};

struct CoroutineChain {
    enum class End : std::uint8_t {
        kAwaitable,  // `awaited` is a future or an object that has no Python frame
        kYield,      // the last one stands at a yield: sleep(0), a generator's step, Future.__await__ in Python
        kCreated,    // the first one has not begun
        kExecuting,  // the last one executes
        kFinished,   // the first one has come to its end
        kTorn,       // a place held something that can't stand there: it changed while it was read
        kEndless,    // longer than any real one, or a circle
    };
    std::vector<RawFrame> frames;  // the coroutine's own frame first
    std::vector<Address> objects;  // the coroutine or generator of each frame; null for a greenlet's
    End end = End::kTorn;
    Address awaited{};             // what the last one awaits; null where nothing is known
    ObjectKind awaited_kind = ObjectKind::kUnreadable;
    Address main_greenlet{};       // of the thread, where a greenlet is among the frames and that is known; else null
};

class CoroutineReader {
public:
    static constexpr std::size_t kMostFrames = 1'024;

    CoroutineReader(const Layout& layout, const CoroutineLayout& coroutine, ObjectKinds& kinds);

    // Never fails: the reason to end is in chain.end.
    void read_chain(Memory& memory, Address coroutine, CoroutineChain& chain);

    // Greenlets between a coroutine and what it awaits; null: there are none in this process.
    void set_greenlets(GreenletReader* greenlets) { greenlets_ = greenlets; }

    [[nodiscard]] const FrameShape& shape() const { return shape_; }
    // Where the frame of a coroutine stands that holds its frame itself (3.11 on), else null.
    [[nodiscard]] Address own_frame(Address coroutine) const;

private:
    struct Node {
        RawFrame frame;
        CoroutineState state = CoroutineState::kInvalid;
        Address awaited_slot{};  // where the address of the awaited object stands; null: nowhere
    };
    bool read_node(Memory& memory, Address object, Node& node);
    bool read_heap_node(Memory& memory, Address object, Node& node);      // up to 3.10
    bool read_embedded_node(Memory& memory, Address object, Node& node);  // from 3.11 on
    [[nodiscard]] CoroutineState state_of(std::int32_t value) const;
    [[nodiscard]] bool stands_at_await(Memory& memory, const RawFrame& frame) const;

    const Layout* layout_;
    CoroutineLayout coroutine_;
    ObjectKinds* kinds_;
    FrameShape shape_;
    GreenletReader* greenlets_ = nullptr;
    std::vector<RawFrame> between_;
    std::vector<std::byte> copy_;
};

}  // namespace pyprof
