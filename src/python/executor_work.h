// SPDX-License-Identifier: Apache-2.0
//
// Which task gave a thread of a pool what it does: the frame that calls the work holds the item, and the item's
// future the callback by which the task will be woken. Up to that task all is read, nothing is guessed.
#pragma once

#include "python/awaiters.h"
#include "python/frames.h"

#include <pyprof/profile.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pyprof {

// The frame of a thread that calls work which somebody has given to it.
struct WorkerFrame {
    enum class Kind : std::uint8_t {
        kThreadPool,  // concurrent.futures.thread._WorkItem.run, and so run_in_executor() and to_thread()
        kAnyio,       // anyio's WorkerThread.run, and so anyio.to_thread.run_sync()
    };
    Address thread{};
    RawFrame frame;
    Kind kind = Kind::kThreadPool;
};

// Whether a function of this name and file calls work.
[[nodiscard]] std::optional<WorkerFrame::Kind> worker_kind(std::string_view name, std::string_view file);

// What stands in a worker's frame at one moment.
struct FoundWork {
    Address item{};    // what the frame's variable holds
    Address future{};  // what the work is to fill; with the awaiter it tells one piece of work from the next
    std::vector<FoundAwaiter> awaiters;
};

class WorkFinder {
public:
    WorkFinder(const Layout& layout, ObjectKinds& kinds, AwaiterFinder& awaiters)
        : layout_(&layout), kinds_(&kinds), awaiters_(&awaiters) {}

    void find(Memory& memory, const WorkerFrame& worker, FoundWork& found);

private:
    const Layout* layout_;
    ObjectKinds* kinds_;
    AwaiterFinder* awaiters_;
};

}  // namespace pyprof
