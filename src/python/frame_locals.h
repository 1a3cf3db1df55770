// SPDX-License-Identifier: Apache-2.0
//
// The local variables of a frame, as objects: what a coroutine or a pool's thread holds tells whom it works for.
// They are read as they stand, may be anything by now, and are to be checked by their type.
#pragma once

#include "python/frames.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pyprof {

constexpr std::size_t kMostLocals = 512;  // of one frame; more are left out

// Which of its variables has that name; kMostLocals where none has; nothing when it can't be read.
[[nodiscard]] std::optional<std::size_t> find_local(Memory& memory, const Layout& layout, Address code, std::string_view name);

// What the variable `name` holds; kNullAddress where it is not set or there is none of that name.
[[nodiscard]] std::optional<Address> read_local(Memory& memory, const Layout& layout, const RawFrame& frame,
                                                std::string_view name);

// What all variables hold, cells as cells, null where unset. Empty where it can't be read.
void read_locals(Memory& memory, const Layout& layout, const RawFrame& frame, std::vector<Address>& objects);

}  // namespace pyprof
