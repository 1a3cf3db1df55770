// SPDX-License-Identifier: Apache-2.0
//
// Where a coroutine was made: cr_origin, which the interpreter fills while coroutine_origin_tracking_depth of the
// thread is not 0 (sys.set_coroutine_origin_tracking_depth, asyncio's debug mode).
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pyprof {

struct OriginFrame {
    std::string file;
    std::string function;  // its plain name
    std::int32_t line = 0;
};

// The frames from the one that made the coroutine outwards; empty where nothing was noted. `offset` is that of
// cr_origin. Of an object that is no coroutine what stands there is no such note, and nothing comes of it.
[[nodiscard]] std::vector<OriginFrame> read_coroutine_origin(Memory& memory, const Layout& layout, Offset offset,
                                                             Address coroutine);
// The same of the note itself.
[[nodiscard]] std::vector<OriginFrame> read_origin_note(Memory& memory, const Layout& layout, Address note);

// Leaves out what called the coroutine's maker only because a loop runs it: the loop's own frames.
void strip_loop_frames(std::vector<OriginFrame>& origin);

}  // namespace pyprof
