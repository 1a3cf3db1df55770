// SPDX-License-Identifier: Apache-2.0
#include "python/thread_walk.h"

#include "python/objects.h"

#include <optional>
#include <vector>

namespace pyprof {

namespace {

std::optional<Address> find_leaf(Memory& memory, const Layout& layout, Address thread) {
    switch (layout.frame_root) {
        case FrameRoot::kThreadFrame:
            return read_pointer(memory, thread + at(layout.thread.frame));
        case FrameRoot::kThreadCurrent:
            return read_pointer(memory, thread + at(layout.thread.current_frame));
        case FrameRoot::kThreadCframe:
            break;
    }
    const auto cframe = read_pointer(memory, thread + at(layout.thread.cframe));
    if (!cframe || *cframe == kNullAddress) return cframe;
    return read_pointer(memory, *cframe + at(layout.cframe.current_frame));
}

}  // namespace

void walk_thread(Memory& memory, const Layout& layout, const FrameShape& shape, Address thread, std::size_t most, Walk& walk) {
    walk = Walk{};
    const std::optional<Address> leaf = find_leaf(memory, layout, thread);
    if (!leaf) return;
    WalkLimits limits;
    if (has(layout.thread.base_frame)) {
        limits.base_frame = read_pointer(memory, thread + at(layout.thread.base_frame)).value_or(kNullAddress);
    }
    std::vector<std::byte> copy(shape.bytes());
    const auto read_frame = [&](Address frame) -> const std::byte* {
        if (most == 0) return nullptr;
        --most;
        return read_bytes(memory, frame + shape.begin(), copy) ? copy.data() : nullptr;
    };
    walk_frames(shape, *leaf, limits, read_frame, walk);
}

}  // namespace pyprof
