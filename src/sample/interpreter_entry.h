// SPDX-License-Identifier: Apache-2.0
//
// A thread that calls into another interpreter has a chain of frames in each. Which chains are of one thread, and which
// of them is nearer to its leaf, is told by the C stack, which grows downwards: each entry into an interpreter stands on
// it. A thread state can't be asked: up to 3.12 it names the thread that made it, which need not be the one that runs it.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

namespace pyprof {

class ThreadReader;

// Whether a thread state or its frames tell that; up to 3.9 the C stacks have to be searched (sample/loops_on_c_stacks.h).
[[nodiscard]] bool tells_entries(const Layout& layout);

// Where on the C stack the interpreter of the chain that was read last was entered last; null where that is not known.
[[nodiscard]] Address entry_on_c_stack(const Layout& layout, const ThreadReader& reader);

}  // namespace pyprof
