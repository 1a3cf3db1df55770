// SPDX-License-Identifier: Apache-2.0
#include "python/runtime_probe.h"

#include "python/interpreters.h"
#include "python/layouts.h"
#include "python/objects.h"
#include "python/thread_walk.h"

#include <time.h>

#include <algorithm>
#include <vector>

namespace pyprof {

namespace {

constexpr int kTries = 20;  // a thread that runs changes its frames under a plain copy
constexpr int kTriesAtOnce = 5;
constexpr timespec kPause{0, 1'000'000};  // then: on one processor all looks would see one moment
constexpr std::size_t kMostThreads = 64;
constexpr std::size_t kNamesToRead = 4;
// 3.10 comes last: where it keeps "executing" as 0, the others keep a line that is mostly 0, while theirs is a 1
// where it has the start of a block.
constexpr int kMinors[] = {12, 11, 9, 8, 10};

bool has_names(Memory& memory, const Layout& layout, Address code) {
    const auto is_text = [&](Offset offset) {
        const auto object = read_pointer(memory, code + at(offset));
        return object && read_unicode(memory, layout, *object, 64).has_value();
    };
    return is_text(layout.code.name) && is_text(layout.code.filename);
}

bool can_be_walked(Memory& memory, const Layout& layout, const FrameShape& shape, Address thread) {
    Walk walk;
    walk_thread(memory, layout, shape, thread, kMaxSteps, walk);
    if (walk.end != WalkEnd::kRoot || walk.frames.empty()) return false;
    // Of 3.8 to 3.10 nothing else that a walk sees tells which it is.
    const bool executes = std::all_of(walk.frames.begin(), walk.frames.end(),
                                      [&](const RawFrame& raw_frame) { return shape.is_suspended(raw_frame); });
    if (layout.frame_root == FrameRoot::kThreadFrame && !executes) return false;
    walk.frames.resize(std::min(walk.frames.size(), kNamesToRead));
    return std::all_of(walk.frames.begin(), walk.frames.end(),
                       [&](const RawFrame& raw_frame) { return has_names(memory, layout, raw_frame.code); });
}

// Whether the field for the GIL's last holder holds a thread. It tells 3.8 and 3.9 apart, whose walks are alike;
// a thread that has ended may still stand there, so that it decides nothing alone.
bool has_known_holder(Memory& memory, const Layout& layout, Address runtime) {
    if (!has(layout.runtime.gil_last_holder)) return false;
    const auto holder = read_pointer(memory, runtime + at(layout.runtime.gil_last_holder));
    const ThreadList list = read_thread_list(memory, layout, runtime);
    return std::any_of(list.threads.begin(), list.threads.end(),
                       [&](const ThreadState& thread) { return holder == thread.address; });
}

}  // namespace

bool is_runtime(Memory& memory, const Layout& layout, Address runtime) {
    const FrameShape shape(layout);
    for (int i = 0; i < kTries; ++i) {
        if (i >= kTriesAtOnce) ::nanosleep(&kPause, nullptr);
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
    int first = 0;
    for (const int minor : kMinors) {
        const Layout* layout = layout_of(3, minor);
        if (layout == nullptr || !is_runtime(memory, *layout, runtime)) continue;
        if (has_known_holder(memory, *layout, runtime)) return minor;
        if (first == 0) first = minor;
    }
    return first;
}

}  // namespace pyprof
