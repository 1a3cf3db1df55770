// SPDX-License-Identifier: Apache-2.0
//
// Whether an interpreter has asyncio loaded, and where its modules keep tasks and types. Looked up once and
// kept: an interpreter without asyncio costs one look-up in sys.modules, now and then.
#pragma once

#include "python/asyncio_layouts.h"
#include "python/object_kinds.h"

#include <pyprof/target.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

struct AsyncioModules {
    ObjectKinds::AsyncioTypes types;
    // WeakSets whose `data` are sets of weak references: _all_tasks up to 3.11, _scheduled_tasks, and from
    // 3.14 on the accelerator's own one of tasks that are not its own.
    std::vector<Address> weak_sets;
    // Sets of tasks that run their first step within create_task(), 3.12 on.
    std::vector<Address> eager_sets;
    Address current_tasks{};  // dict {loop: task that is in its step}; up to 3.13
};

// sys.modules["asyncio.tasks"] and what belongs to it; nothing where it is not loaded (yet).
[[nodiscard]] std::optional<AsyncioModules> find_asyncio_modules(Memory& memory, const Layout& layout,
                                                                 Address interpreter);

// Whether the module greenlet is loaded.
[[nodiscard]] bool has_greenlets(Memory& memory, const Layout& layout, Address interpreter);

// The bytes of the target's section .AsyncioDebug, in `_asyncio` or where that is linked in; empty where there
// is none. Opens files.
[[nodiscard]] std::vector<std::byte> read_asyncio_debug(Target& target);

// Why the accelerator's objects can't be read as `asyncio` says: they are of another size than they should be.
[[nodiscard]] std::optional<std::string> find_asyncio_mismatch(Memory& memory, const Layout& layout,
                                                               const AsyncioLayout& asyncio,
                                                               const ObjectKinds::AsyncioTypes& types);

}  // namespace pyprof
