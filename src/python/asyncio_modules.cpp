// SPDX-License-Identifier: Apache-2.0
//
// Lib/asyncio/tasks.py: `_all_tasks` up to 3.11, then `_scheduled_tasks` and `_eager_tasks`; `_PyTask` and
// `_PyFuture` are the classes in Python, which the accelerator's replace under their names.
#include "python/asyncio_modules.h"

#include "base/base_name.h"
#include "python/find_runtime_module.h"
#include "python/objects.h"

#include <fmt/format.h>

#include <array>

namespace pyprof {

namespace {

Address find(Memory& memory, const Layout& layout, Address dict, std::string_view key) {
    if (!can_be_object(dict)) return kNullAddress;
    const Address found = find_in_dict(memory, layout, dict, key).value_or(kNullAddress);
    return can_be_object(found) ? found : kNullAddress;
}

Address dict_of(Memory& memory, const Layout& layout, Address module) {
    if (!can_be_object(module)) return kNullAddress;
    return read_module_dict(memory, layout, module).value_or(kNullAddress);
}

// The accelerator's state from 3.14 on: four types, two more objects, then the tasks that are not its own: a
// WeakSet and a set (struct asyncio_state).
void add_module_state(Memory& memory, const Layout& layout, Address module, AsyncioModules& modules) {
    constexpr std::size_t kFutureType = 2, kTaskType = 3, kForeignTasks = 6, kForeignEagerTasks = 7;
    // md_state follows md_dict, and up to 3.14 md_def stands between.
    for (const std::uint64_t offset : {std::uint64_t{8}, std::uint64_t{16}}) {
        const auto state = read_pointer(memory, module + at(layout.module.dict) + offset);
        if (!state || !can_be_object(*state)) continue;
        const auto words = read_value<std::array<std::uint64_t, 8>>(memory, *state);
        if (!words || Address{(*words)[kFutureType]} != modules.types.future ||
            Address{(*words)[kTaskType]} != modules.types.task) {
            continue;
        }
        if (can_be_object(Address{(*words)[kForeignTasks]})) modules.weak_sets.push_back(Address{(*words)[kForeignTasks]});
        if (can_be_object(Address{(*words)[kForeignEagerTasks]}))
            modules.eager_sets.push_back(Address{(*words)[kForeignEagerTasks]});
        return;
    }
}

}  // namespace

std::optional<AsyncioModules> find_asyncio_modules(Memory& memory, const Layout& layout, Address interpreter) {
    const Address tasks = dict_of(memory, layout, find_module(memory, layout, interpreter, "asyncio.tasks"));
    if (tasks == kNullAddress) return std::nullopt;
    AsyncioModules modules;
    for (const std::string_view name : {"_all_tasks", "_scheduled_tasks"}) {
        const Address set = find(memory, layout, tasks, name);
        if (set != kNullAddress) modules.weak_sets.push_back(set);
    }
    if (modules.weak_sets.empty()) return std::nullopt;  // it is being imported just now
    const Address eager = find(memory, layout, tasks, "_eager_tasks");
    if (eager != kNullAddress) modules.eager_sets.push_back(eager);

    modules.current_tasks = find(memory, layout, tasks, "_current_tasks");

    const Address futures = dict_of(memory, layout, find_module(memory, layout, interpreter, "asyncio.futures"));
    modules.types.python_task = find(memory, layout, tasks, "_PyTask");
    modules.types.python_future = find(memory, layout, futures, "_PyFuture");
    const Address accelerator = find_module(memory, layout, interpreter, "_asyncio");
    const Address names = dict_of(memory, layout, accelerator);
    modules.types.task = find(memory, layout, names, "Task");
    modules.types.future = find(memory, layout, names, "Future");
    if (needs_asyncio_debug(layout) && modules.types.task != kNullAddress) {
        add_module_state(memory, layout, accelerator, modules);
    }
    return modules;
}

bool has_greenlets(Memory& memory, const Layout& layout, Address interpreter) {
    return find_module(memory, layout, interpreter, "greenlet._greenlet") != kNullAddress;
}

std::vector<std::byte> read_asyncio_debug(Target& target) {
    const auto mappings = target.read_mappings();
    if (!mappings) return {};
    const auto facts = target.read_facts();
    for (const LoadedModule& module : list_modules(*mappings, facts ? facts->executable : std::string())) {
        const std::string& path = module.path();
        const std::string_view name = base_name(path);
        const bool is_interpreter = (facts && path == facts->executable) || name.starts_with("libpython");
        if (!is_interpreter && !name.starts_with("_asyncio.")) continue;
        auto view = ModuleView::open(target, module);
        if (!view) continue;
        const auto section = view->find_section(".AsyncioDebug");
        if (!section) continue;
        std::vector<std::byte> bytes(kAsyncioDebugBytes);
        if (read_bytes(target.memory(), *section, bytes)) return bytes;
    }
    return {};
}

std::optional<std::string> find_asyncio_mismatch(Memory& memory, const Layout& layout, const AsyncioLayout& asyncio,
                                                 const ObjectKinds::AsyncioTypes& types) {
    struct Expected {
        const char* name;
        Address type;
        std::uint32_t size;
    };
    for (const Expected& expected : {Expected{"Task", types.task, asyncio.task.size},
                                     Expected{"Future", types.future, asyncio.future.size}}) {
        if (expected.type == kNullAddress || expected.size == 0) continue;
        const auto size = read_value<std::uint64_t>(memory, expected.type + at(layout.type.basic_size));
        if (!size) return fmt::format("the type _asyncio.{} can't be read", expected.name);
        if (*size != expected.size) {
            return fmt::format("_asyncio.{} has {} bytes instead of {}", expected.name, *size, expected.size);
        }
    }
    return std::nullopt;
}

}  // namespace pyprof
