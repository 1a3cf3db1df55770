// SPDX-License-Identifier: Apache-2.0
//
// Whether a place in memory is the _PyRuntime of a given version: its lists make sense, and a thread's stack can
// be walked from its leaf to its root through frames whose code objects have names. A claim of
// find_runtime becomes a fact by it. Reads only; a target that moves is looked at a few times.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>

namespace pyprof {

[[nodiscard]] bool is_runtime(Memory& memory, const Layout& layout, Address runtime);

// The minor version of 3.8 to 3.12 for which is_runtime() holds and, where several do, the GIL was held by a
// thread; 0 when none does.
[[nodiscard]] int probe_minor(Memory& memory, Address runtime);

}  // namespace pyprof
