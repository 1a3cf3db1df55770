// SPDX-License-Identifier: Apache-2.0
//
// The chain of a thread's frames, read frame by frame, for what is looked up once. Samples copy a thread's frames together
// (sample/thread_reader.h).
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include "python/frames.h"

namespace pyprof {

// As walk_frames: from the leaf of the thread state at `thread` on, `most` frames at the most, and the reason why it ended
// in walk.end. A thread without a frame ends at the root and has none; where the leaf can't be read it is kUnreadable.
void walk_thread(Memory& memory, const Layout& layout, const FrameShape& shape, Address thread, std::size_t most, Walk& walk);

}  // namespace pyprof
