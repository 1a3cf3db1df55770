// SPDX-License-Identifier: Apache-2.0
#include "python/runtime_probe.h"

#include "python/frames.h"
#include "python/interpreters.h"
#include "python/layouts.h"
#include "python/objects.h"

#include <algorithm>
#include <vector>

namespace pyprof {

namespace {

constexpr int kTries = 20;  // a thread that runs changes its frames under a plain copy
constexpr std::size_t kMostThreads = 64;
constexpr std::size_t kNamesToRead = 4;
constexpr int kFirstRow = 8;  // 3.8 to 3.12 have no debug offsets, so nothing else tells them apart
constexpr int kLastRow = 12;

std::uint64_t at(Offset offset) { return static_cast<std::uint64_t>(offset); }

Address find_leaf(Memory& memory, const Layout& layout, Address thread) {
    const auto pointer = [&](Address base, Offset offset) {
        return read_pointer(memory, base + at(offset)).value_or(kNullAddress);
    };
    switch (layout.frame_root) {
        case FrameRoot::kThreadFrame:
            return pointer(thread, layout.thread.frame);
        case FrameRoot::kThreadCurrent:
            return pointer(thread, layout.thread.current_frame);
        case FrameRoot::kThreadCframe:
            break;
    }
    const Address cframe = pointer(thread, layout.thread.cframe);
    return cframe == kNullAddress ? kNullAddress : pointer(cframe, layout.cframe.current_frame);
}

bool has_names(Memory& memory, const Layout& layout, Address code) {
    const auto is_text = [&](Offset offset) {
        const auto object = read_pointer(memory, code + at(offset));
        return object && read_unicode(memory, layout, *object, 64).has_value();
    };
    return is_text(layout.code.name) && is_text(layout.code.filename);
}

bool can_be_walked(Memory& memory, const Layout& layout, const FrameShape& shape, Address thread) {
    const Address leaf = find_leaf(memory, layout, thread);
    if (leaf == kNullAddress) return false;
    WalkLimits limits;
    if (has(layout.thread.base_frame)) {
        limits.base_frame = read_pointer(memory, thread + at(layout.thread.base_frame)).value_or(kNullAddress);
    }
    std::vector<std::byte> frame(shape.bytes());
    Walk walk;
    walk_frames(
        shape, leaf, limits,
        [&](Address address) { return read_bytes(memory, address + shape.begin(), frame) ? frame.data() : nullptr; },
        walk);
    if (walk.end != WalkEnd::kRoot || walk.frames.empty()) return false;
    walk.frames.resize(std::min(walk.frames.size(), kNamesToRead));
    return std::all_of(walk.frames.begin(), walk.frames.end(),
                       [&](const RawFrame& raw_frame) { return has_names(memory, layout, raw_frame.code); });
}

}  // namespace

bool is_runtime(Memory& memory, const Layout& layout, Address runtime) {
    const FrameShape shape(layout);
    for (int i = 0; i < kTries; ++i) {
        const ThreadList list = read_thread_list(memory, layout, runtime);
        if (list.threads.empty()) return false;
        if (list.broken_lists > 0) continue;
        const std::size_t count = std::min(list.threads.size(), kMostThreads);
        for (std::size_t k = 0; k < count; ++k) {
            if (can_be_walked(memory, layout, shape, list.threads[k].address)) return true;
        }
    }
    return false;
}

int probe_minor(Memory& memory, Address runtime) {
    for (int minor = kLastRow; minor >= kFirstRow; --minor) {
        const Layout* layout = layout_of(3, minor);
        if (layout != nullptr && is_runtime(memory, *layout, runtime)) return minor;
    }
    return 0;
}

}  // namespace pyprof
