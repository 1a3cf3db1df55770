// SPDX-License-Identifier: Apache-2.0
//
// Threads that wait for a future of concurrent.futures, as one does that has called run_coroutine_threadsafe().result():
// whom for stands among the variables of the frame. What is read is a claim until the thread has been seen to sleep on.
#pragma once

#include "python/frames.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

namespace pyprof {

struct CalledFunction {
    std::string_view name, file;
};

// Which frame of a stack waits, counted from the leaf: Future.result() or exception(), in which nothing but a lock of
// `threading` stands. `function` names the frame at a place, of `count`.
[[nodiscard]] std::optional<std::size_t> find_future_wait(std::size_t count, const std::function<CalledFunction(std::size_t)>& function);

// The future that such a frame waits for, null where it holds none any more; nothing where it can't be read.
[[nodiscard]] std::optional<Address> read_awaited_future(Memory& memory, const Layout& layout, const RawFrame& frame);

}  // namespace pyprof
