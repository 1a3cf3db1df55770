// SPDX-License-Identifier: Apache-2.0
//
// What a sleeping thread waits in, as a marker above its native frames: "[gil wait]", or the system call, "[read]".
#pragma once

#include <pyprof/memory.h>
#include <pyprof/target.h>

#include "python/interpreters.h"

#include <string>

namespace pyprof {

// A futex call (or its continuation after a stop) on an address of the GIL.
bool waits_for_gil(const Activity& activity, Address gil_begin, Address gil_end);

// As a loop waits for its next event, and hardly anything else: epoll_wait(2).
bool waits_for_events(const Activity& activity);

// A wait with a timeout that a stop interrupted goes on as restart_syscall(2). The call that it goes on with is the one
// that the instructions before its program counter make: they hold its number or where on the stack it stands. What they
// do not tell stays restart_syscall.
Activity name_restarted(Memory& memory, Activity activity);

// `activity` of a thread that was blocked. Empty where it is in no system call.
std::string wait_marker(const Activity& activity, Address gil_begin, Address gil_end);

}  // namespace pyprof
