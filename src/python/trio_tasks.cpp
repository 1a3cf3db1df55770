// SPDX-License-Identifier: Apache-2.0
#include "python/trio_tasks.h"

#include "python/object_kinds.h"
#include "python/object_slots.h"
#include "python/objects.h"

#include <string_view>

namespace pyprof {

namespace {

constexpr std::size_t kMostNurseries = 64;  // of one task, one within the other

Address object_at(Memory& memory, Address object, Offset offset) {
    const Address found = read_pointer(memory, object + at(offset)).value_or(kNullAddress);
    return can_be_object(found) ? found : kNullAddress;
}

bool has_type(Memory& memory, const Layout& layout, Address object, Address type) {
    return can_be_object(object) && read_type(memory, layout, object) == type;
}

bool has_type_named(Memory& memory, const Layout& layout, Address object, std::string_view name) {
    const auto type = can_be_object(object) ? read_type(memory, layout, object) : std::nullopt;
    return type && can_be_object(*type) && type_name(memory, layout, *type) == name;
}

// Whether the body of a nursery is over: then the task that opened it waits for those within.
bool is_body_over(Memory& memory, const Layout& layout, Address nursery) {
    const Address runs = read_attribute(memory, layout, nursery, "_nested_child_running").value_or(kNullAddress);
    return has_type_named(memory, layout, runs, "bool") && read_long(memory, layout, runs) == 0;
}

}  // namespace

std::optional<TrioModule> find_trio(Memory& memory, const Layout& layout, Address interpreter) {
    const Address module = find_module(memory, layout, interpreter, "trio._core._run");
    if (module == kNullAddress) return std::nullopt;
    const auto names = read_module_dict(memory, layout, module);
    if (!names || !can_be_object(*names)) return std::nullopt;
    TrioModule trio;
    trio.task_type = find_in_dict(memory, layout, *names, "Task").value_or(kNullAddress);
    trio.runner_type = find_in_dict(memory, layout, *names, "Runner").value_or(kNullAddress);
    struct Slot {
        Address type;
        std::string_view name;
        Offset* offset;
    };
    for (const Slot& slot : {Slot{trio.task_type, "coro", &trio.task.coroutine}, Slot{trio.task_type, "name", &trio.task.name},
                             Slot{trio.task_type, "_counter", &trio.task.counter}, Slot{trio.task_type, "_runner", &trio.task.runner},
                             Slot{trio.task_type, "_parent_nursery", &trio.task.parent_nursery},
                             Slot{trio.task_type, "_child_nurseries", &trio.task.child_nurseries},
                             Slot{trio.task_type, "_next_send_fn", &trio.task.next_send_fn},
                             Slot{trio.runner_type, "tasks", &trio.runner_tasks},
                             Slot{trio.runner_type, "init_task", &trio.runner_init_task}}) {
        if (!can_be_object(slot.type)) return std::nullopt;  // it is being imported just now
        *slot.offset = find_slot(memory, layout, slot.type, slot.name).value_or(kAbsent);
        if (!has(*slot.offset)) return std::nullopt;
    }
    return trio;
}

FrameSearch find_trio_runner(Memory& memory, const Layout& layout, const TrioModule& trio, Address thread, Address& runner) {
    const auto is_runner = [&](Address held) { return has_type(memory, layout, held, trio.runner_type); };
    return find_loop_by_frame(memory, layout, thread, {"run", "trio/_core/_run.py", "runner"}, is_runner, runner);
}

bool list_trio_tasks(Memory& memory, const Layout& layout, const TrioModule& trio, Address runner, std::size_t most,
                     std::vector<Address>& tasks) {
    if (!has_type(memory, layout, runner, trio.runner_type)) return false;
    const Address set = object_at(memory, runner, trio.runner_tasks);
    if (!has_type_named(memory, layout, set, "set")) return false;
    const auto members = read_set(memory, layout, set, most);
    if (!members) return false;
    const Address own = object_at(memory, runner, trio.runner_init_task);
    for (const Address task : *members) {
        if (task != own && can_be_object(task)) tasks.push_back(task);
    }
    return true;
}

bool read_trio_task(Memory& memory, const Layout& layout, const TrioModule& trio, Address task, TrioTask& found) {
    found = TrioTask{};
    found.coroutine = object_at(memory, task, trio.task.coroutine);
    found.name = object_at(memory, task, trio.task.name);
    found.runner = object_at(memory, task, trio.task.runner);
    const Address counter = object_at(memory, task, trio.task.counter);
    const Address next = object_at(memory, task, trio.task.next_send_fn);
    const Address nursery = object_at(memory, task, trio.task.parent_nursery);
    const Address own = object_at(memory, task, trio.task.child_nurseries);
    if (found.coroutine == kNullAddress || next == kNullAddress || nursery == kNullAddress) return false;
    if (!has_type(memory, layout, found.runner, trio.runner_type)) return false;
    if (has_type_named(memory, layout, counter, "int")) found.number = read_long(memory, layout, counter).value_or(~0ULL) + 1;
    found.is_scheduled = !has_type_named(memory, layout, next, "NoneType");

    if (!has_type_named(memory, layout, nursery, "Nursery")) return has_type_named(memory, layout, nursery, "NoneType");
    const Address parent = read_attribute(memory, layout, nursery, "_parent_task").value_or(kNullAddress);
    if (!has_type(memory, layout, parent, trio.task_type)) return false;
    if (parent != object_at(memory, found.runner, trio.runner_init_task)) {
        found.nursery = nursery;
        found.parent = parent;
    }
    if (!has_type_named(memory, layout, own, "list")) return false;
    const auto nurseries = read_list(memory, layout, own, kMostNurseries);
    if (!nurseries) return false;
    if (nurseries->empty()) return true;
    const Address innermost = nurseries->back();
    if (!has_type_named(memory, layout, innermost, "Nursery")) return false;
    if (is_body_over(memory, layout, innermost)) found.ends_nursery = innermost;
    return true;
}

}  // namespace pyprof
