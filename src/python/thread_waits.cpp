// SPDX-License-Identifier: Apache-2.0
//
// Lib/concurrent/futures/_base.py: `Future.result(self, timeout)` and `Future.exception(self, timeout)` call
// self._condition.wait(), and set `self` to None when they return.
#include "python/thread_waits.h"

#include "python/frame_locals.h"

#include <algorithm>
#include <iterator>

namespace pyprof {

namespace {

constexpr std::size_t kDeepestWait = 4;  // Condition.wait() stands above, and in builds with pure locks RLock.acquire()

bool is_future_wait(const CalledFunction& called) {
    constexpr std::string_view kNames[] = {"result", "exception", "Future.result", "Future.exception"};
    return std::find(std::begin(kNames), std::end(kNames), called.name) != std::end(kNames) &&
           called.file.ends_with("concurrent/futures/_base.py");
}

}  // namespace

std::optional<std::size_t> find_future_wait(std::size_t count, const std::function<CalledFunction(std::size_t)>& function) {
    for (std::size_t place = 0; place < std::min(count, kDeepestWait); ++place) {
        const CalledFunction called = function(place);
        if (is_future_wait(called)) return place == 0 ? std::nullopt : std::optional(place);
        if (!called.file.ends_with("/threading.py")) return std::nullopt;
    }
    return std::nullopt;
}

std::optional<Address> read_awaited_future(Memory& memory, const Layout& layout, const RawFrame& frame) {
    return read_local(memory, layout, frame, "self");
}

}  // namespace pyprof
