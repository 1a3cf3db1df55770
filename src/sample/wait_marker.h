// SPDX-License-Identifier: Apache-2.0
//
// What a sleeping thread waits in, as a marker above its native frames: "[gil wait]", or the system call, "[read]".
#pragma once

#include <pyprof/target.h>

#include "python/interpreters.h"

#include <string>

namespace pyprof {

// A futex call (or its continuation after a stop) on an address of the GIL.
bool waits_for_gil(const Activity& activity, Address gil_begin, Address gil_end);

// `activity` of a thread that was blocked. Empty where it is in no system call.
std::string wait_marker(const Activity& activity, Address gil_begin, Address gil_end);

}  // namespace pyprof
