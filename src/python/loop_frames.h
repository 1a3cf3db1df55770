// SPDX-License-Identifier: Apache-2.0
//
// Loops that nothing names but the frame that runs them: those of trio, and those of asyncio without its accelerator. The
// thread moves meanwhile, so that a frame may be missed; what is found is checked by its type.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace pyprof {

// A loop that goes on in a thread.
struct LoopRun {
    Address interpreter{};
    Address thread{};
    Address loop{};
};

enum class FrameSearch : std::uint8_t {
    kFound,
    kNone,     // the thread's frames were read to their end
    kUnknown,  // they were not
};

struct LoopFrame {
    std::string_view function, file;  // the file's end
    std::string_view variable;        // that holds the loop
};

// The loop of the outermost such frame of a thread, of those that are accepted.
FrameSearch find_loop_by_frame(Memory& memory, const Layout& layout, Address thread, const LoopFrame& wanted,
                               const std::function<bool(Address)>& accepts, Address& loop);

}  // namespace pyprof
