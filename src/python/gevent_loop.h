// SPDX-License-Identifier: Apache-2.0
//
// What a hub of gevent is to call in its loop's next turn. A callback that is to switch to a greenlet says
// that this one could go on; gevent takes that away from the callback before it calls it. Nothing here is
// believed but by its type, and every list is bounded.
#pragma once

#include "python/gevent_greenlets.h"

#include <vector>

namespace pyprof {

// Where the loop of a hub keeps what it is to call, in order; null where that is not found.
[[nodiscard]] Address find_callback_queue(Memory& memory, const Layout& layout, ObjectKinds& kinds,
                                          Address hub);

// The greenlet to which a callback is to switch; null where it does something else, or was called.
[[nodiscard]] Address greenlet_of_callback(Memory& memory, const Layout& layout, ObjectKinds& kinds,
                                           const GeventModule& gevent, Address callback);

struct DueGreenlet {
    Address greenlet{};
    Address callback{};
};
// Appends those of a queue.
void find_due(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent,
              Address queue, std::vector<DueGreenlet>& due);

}  // namespace pyprof
