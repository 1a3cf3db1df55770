// SPDX-License-Identifier: Apache-2.0
#include "python/loop_frames.h"

#include "python/frame_locals.h"
#include "python/object_kinds.h"
#include "python/objects.h"
#include "python/thread_walk.h"

namespace pyprof {

namespace {

constexpr std::size_t kMostFrames = 2'000;  // of a thread, from its leaf on

bool is_wanted(Memory& memory, const Layout& layout, Address code, const LoopFrame& wanted) {
    if (!can_be_object(code)) return false;
    const auto text = [&](Offset offset) {
        const auto object = read_pointer(memory, code + at(offset));
        return object && can_be_object(*object) ? read_unicode(memory, layout, *object).value_or("") : std::string();
    };
    return text(layout.code.name) == wanted.function && text(layout.code.filename).ends_with(wanted.file);
}

}  // namespace

FrameSearch find_loop_by_frame(Memory& memory, const Layout& layout, Address thread, const LoopFrame& wanted,
                               const std::function<bool(Address)>& accepts, Address& loop) {
    const FrameShape shape(layout);
    Walk walk;
    walk_thread(memory, layout, shape, thread, kMostFrames, walk);
    for (auto frame = walk.frames.rbegin(); frame != walk.frames.rend(); ++frame) {
        if (!is_wanted(memory, layout, frame->code, wanted)) continue;
        const Address held = read_local(memory, layout, *frame, wanted.variable).value_or(kNullAddress);
        if (!can_be_object(held) || !accepts(held)) continue;
        loop = held;
        return FrameSearch::kFound;
    }
    return walk.end == WalkEnd::kRoot ? FrameSearch::kNone : FrameSearch::kUnknown;
}

}  // namespace pyprof
