// SPDX-License-Identifier: Apache-2.0
//
// What gevent keeps of its greenlets: what each runs, who spawned it and where, and who is to be woken at its end; and
// of a hub the thread whose loop it runs. Greenlet is a class of Cython, whose members have stood at the same
// places from gevent 22.10 to 25.9: each is checked by its type before it is believed.
#pragma once

#include "python/coroutine_origin.h"
#include "python/object_kinds.h"

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace pyprof {

struct GeventModule {
    Address greenlet_type{};
    Address hub_type{};
};

// sys.modules["gevent.hub"] and "gevent.greenlet"; nothing where they are not loaded.
[[nodiscard]] std::optional<GeventModule> find_gevent(Memory& memory, const Layout& layout, Address interpreter);

// Whether an object is of this type, or of one that is derived of it.
[[nodiscard]] bool is_instance(Memory& memory, const Layout& layout, Address object, Address type);

// The pthread of the thread in which a hub runs; 0 where that can't be read.
[[nodiscard]] std::uint64_t thread_of_hub(Memory& memory, const Layout& layout, Address hub);

struct WokenGreenlet {
    Address greenlet{};
    bool by_waiter = false;  // it waits at a Waiter: for any of several, or for a while
};
// Whom a Waiter, or a method of one, or the method `switch` of a greenlet is to wake.
[[nodiscard]] std::optional<WokenGreenlet> woken_by(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent,
                                                    Address object);

struct GeventGreenlet {
    std::vector<WokenGreenlet> joiners;  // by_waiter: joinall(), wait()
    Address spawner{};         // null: not recorded, or gone
    Address spawning_stack{};  // gevent._gevent_cgreenlet._Frame
    Address start_event{};     // what it is to be started by; null: nothing is to
    std::uint64_t identity = 0;  // of the objects that belong to it alone: another one at its place has others
};
// Of an instance of Greenlet. False: its members are not where they are known to be.
bool read_gevent_greenlet(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent,
                          Address greenlet, GeventGreenlet& found);

// Whether objects of this type are gevent's own, written in Cython, and greenlets may wait at them: Event, Queue, timer.
// What keeps a callback that is to be called at once is called `callback`.
[[nodiscard]] bool is_waited_at(Memory& memory, const Layout& layout, Address type);
// Appends the greenlets that such an object is to switch to.
void find_waiting(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent, Address object,
                  std::vector<Address>& greenlets);

// The str that names what a greenlet runs, by its own attribute `_run`; null where there is none.
[[nodiscard]] Address run_name_of(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address greenlet);
// The str that the program gave it as `name`; null where it gave none.
[[nodiscard]] Address given_name_of(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address greenlet);

// Where a greenlet was spawned, from the one that did it outwards.
[[nodiscard]] std::vector<OriginFrame> read_spawning_stack(Memory& memory, const Layout& layout, Address frame);

}  // namespace pyprof
