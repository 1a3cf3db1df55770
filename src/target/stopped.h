// SPDX-License-Identifier: Apache-2.0
//
// Whether a process stands still for a reason of its own: a signal has stopped it, or a tracer holds it. Nothing runs in
// it then, whatever its stacks look like.
#pragma once

#include <pyprof/target.h>

#include <cstdint>
#include <string>

namespace pyprof {

enum class StoppedBy : std::uint8_t { kNobody, kSignal, kTracer };

// Who keeps every thread of it from running, by the letters of /proc/PID/task/TID/stat. To be asked before we stop it.
[[nodiscard]] StoppedBy stopped_by(Target& target);

// "stopped by a signal" and "kill -CONT 7 wakes it", for people.
[[nodiscard]] std::string what_of(StoppedBy by);
[[nodiscard]] std::string remedy_of(StoppedBy by, pid_t pid);

}  // namespace pyprof
