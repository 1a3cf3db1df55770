// SPDX-License-Identifier: Apache-2.0
//
// Lib/asyncio/tasks.py, futures.py and taskgroups.py of 3.8 to 3.15: which callback each helper leaves on a
// task, and which object of it leads on to the helper's own future.
#include "python/awaiters.h"

#include "python/object_slots.h"
#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kMostCallbacks = 1U << 14;  // of one task and all futures that follow
constexpr std::size_t kMostFutures = 256;         // on the ways from one task
constexpr std::size_t kMostCells = 64;
constexpr std::size_t kMostGetters = 64;
constexpr std::size_t kMostCached = 1U << 16;
constexpr std::size_t kMostNameCharacters = 256;

}  // namespace

Address AwaiterFinder::pointer(Memory& memory, Address object, Offset offset) const {
    if (!has(offset) || !can_be_object(object)) return kNullAddress;
    return read_pointer(memory, object + at(offset)).value_or(kNullAddress);
}

void AwaiterFinder::begin(Address future) {
    is_loops_own_ = false;
    filled_ = kNullAddress;
    open_.clear();
    visited_.assign(1, future);
    left_ = kMostCallbacks;
}

void AwaiterFinder::find(Memory& memory, Address future, ObjectKind kind, std::vector<FoundAwaiter>& found) {
    begin(future);
    open_.push_back({future, kind, EdgeSource::kAwait, true});
    follow(memory, found);
}

void AwaiterFinder::find_of_concurrent(Memory& memory, Address future, std::vector<FoundAwaiter>& found) {
    begin(future);
    const Open from{future, ObjectKind::kOther, EdgeSource::kAwait, true};
    const Address callbacks = read_attribute(memory, *layout_, future, "_done_callbacks").value_or(kNullAddress);
    for (const Address callback : items_of(memory, callbacks)) take_callback(memory, callback, from, found);
    follow(memory, found);
}

void AwaiterFinder::follow(Memory& memory, std::vector<FoundAwaiter>& found) {
    while (!open_.empty()) {
        const Open next = open_.back();
        open_.pop_back();
        take_callbacks(memory, next, found);
        take_awaited_by(memory, next, found);
    }
}

// What run_coroutine_threadsafe() gave: a thread may wait for it, or by way of wrap_future() a task of another loop.
void AwaiterFinder::open_concurrent(Memory& memory, Address future, const Open& from, std::vector<FoundAwaiter>& found) {
    const auto type = read_type(memory, *layout_, future);
    if (!type || !kinds_->name_of_type(memory, *type).ends_with("Future")) return;
    const Address callbacks = read_attribute(memory, *layout_, future, "_done_callbacks").value_or(kNullAddress);
    if (callbacks == kNullAddress) return;
    if (from.is_first) filled_ = future;
    const Open next{future, ObjectKind::kOther, EdgeSource::kChained, false};
    for (const Address callback : items_of(memory, callbacks)) take_callback(memory, callback, next, found);
}

// A future of a helper; a task is never one: who holds a task in a closure need not be woken by it.
void AwaiterFinder::open(Memory& memory, Address future, EdgeSource source) {
    const ObjectKind kind = kinds_->kind_of(memory, future);
    if (kind != ObjectKind::kFuture && kind != ObjectKind::kPythonFuture) return;
    if (visited_.size() >= kMostFutures) return;
    if (std::find(visited_.begin(), visited_.end(), future) != visited_.end()) return;
    visited_.push_back(future);
    open_.push_back({future, kind, source, false});
}

void AwaiterFinder::take_callbacks(Memory& memory, const Open& from, std::vector<FoundAwaiter>& found) {
    if (from.kind == ObjectKind::kPythonTask || from.kind == ObjectKind::kPythonFuture) {
        take_list(memory, read_attribute(memory, *layout_, from.future, "_callbacks").value_or(kNullAddress), from, found);
        return;
    }
    const Address first = pointer(memory, from.future, asyncio_->future.callback0);
    if (first != kNullAddress) take_callback(memory, first, from, found);
    take_list(memory, pointer(memory, from.future, asyncio_->future.callbacks), from, found);
}

std::vector<Address> AwaiterFinder::items_of(Memory& memory, Address list) const {
    if (list == kNullAddress || kinds_->kind_of(memory, list) != ObjectKind::kList) return {};
    return read_list(memory, *layout_, list, left_).value_or(std::vector<Address>());
}

// [(callback, context), ...]
void AwaiterFinder::take_list(Memory& memory, Address list, const Open& from, std::vector<FoundAwaiter>& found) {
    for (const Address pair : items_of(memory, list)) {
        if (kinds_->kind_of(memory, pair) != ObjectKind::kTuple) continue;
        take_callback(memory, pointer(memory, pair, layout_->tuple.items), from, found);
    }
}

void AwaiterFinder::take_callback(Memory& memory, Address callback, const Open& from,
                                  std::vector<FoundAwaiter>& found) {
    if (left_ == 0) return;
    --left_;
    const auto header = static_cast<Offset>(layout_->object.header_size);
    switch (kinds_->kind_of(memory, callback)) {
        case ObjectKind::kTaskWakeup:
            found.push_back({pointer(memory, callback, header), from.source, from.future, true});
            return;
        case ObjectKind::kBuiltinMethod:
            if (is_task_wakeup(memory, pointer(memory, callback, header))) {
                found.push_back({pointer(memory, callback, header + 8), from.source, from.future, true});
            }
            return;
        case ObjectKind::kMethod:
            take_method(memory, callback, from, found);
            return;
        case ObjectKind::kFunction:
            take_function(memory, callback, from, found);
            return;
        case ObjectKind::kPartial:
            take_partial(memory, callback, from);
            return;
        default:
            return;
    }
}

bool AwaiterFinder::is_task_wakeup(Memory& memory, Address method_definition) {
    if (!can_be_object(method_definition)) return false;
    const auto known = wakeups_.find(raw(method_definition));
    if (known != wakeups_.end()) return known->second;
    constexpr std::string_view kName("task_wakeup\0", 12);
    std::array<char, kName.size()> name{};
    const auto text = read_pointer(memory, method_definition);  // ml_name
    const bool is_it = text && read_bytes(memory, *text, std::as_writable_bytes(std::span(name))) &&
                       std::string_view(name.data(), name.size()) == kName;
    if (wakeups_.size() >= kMostCached) wakeups_.clear();
    wakeups_[raw(method_definition)] = is_it;
    return is_it;
}

AwaiterFinder::Role AwaiterFinder::role_of(Memory& memory, Address function) {
    const Address code = pointer(memory, function, layout_->function.code);
    if (!can_be_object(code)) return Role::kOther;
    const auto known = roles_.find(raw(code));
    if (known != roles_.end()) return known->second;
    struct Known {
        std::string_view name, file;
        Role role;
    };
    constexpr Known kKnown[] = {
        {"__wakeup", "asyncio/tasks.py", Role::kWakeup},
        {"_done_callback", "asyncio/tasks.py", Role::kGather},
        {"_on_completion", "asyncio/tasks.py", Role::kOnCompletion},
        {"_inner_done_callback", "asyncio/tasks.py", Role::kShield},
        {"_outer_done_callback", "asyncio/tasks.py", Role::kShield},
        {"_release_waiter", "asyncio/tasks.py", Role::kReleaseWaiter},
        {"_call_set_state", "asyncio/futures.py", Role::kChain},
        {"_on_task_done", "asyncio/taskgroups.py", Role::kTaskGroup},
        {"_handle_completion", "asyncio/tasks.py", Role::kAsCompleted},
        {"_run_until_complete_cb", "asyncio/base_events.py", Role::kRunUntilComplete},
        {"task_done", "anyio/_backends/_asyncio.py", Role::kAnyio},
    };
    const auto name = read_unicode(memory, *layout_, pointer(memory, code, layout_->code.name), kMostNameCharacters);
    const auto file = read_unicode(memory, *layout_, pointer(memory, code, layout_->code.filename));
    if (!name || !file) return Role::kOther;
    Role role = Role::kOther;
    for (const Known& candidate : kKnown) {
        if (*name == candidate.name && file->ends_with(candidate.file)) role = candidate.role;
    }
    if (roles_.size() >= kMostCached) roles_.clear();
    roles_[raw(code)] = role;
    return role;
}

AwaiterFinder::Group AwaiterFinder::group_of(Memory& memory, Address group) {
    const auto known = groups_.find(raw(group));
    if (known != groups_.end()) return known->second;
    Group read;
    read.parent = read_attribute(memory, *layout_, group, "_parent_task").value_or(kNullAddress);
    read.completed = read_attribute(memory, *layout_, group, "_on_completed_fut").value_or(kNullAddress);
    groups_[raw(group)] = read;
    return read;
}

void AwaiterFinder::take_method(Memory& memory, Address method, const Open& from, std::vector<FoundAwaiter>& found) {
    const auto header = static_cast<Offset>(layout_->object.header_size);
    const Address function = pointer(memory, method, header);
    const Address self = pointer(memory, method, header + 8);
    if (!can_be_object(self) || kinds_->kind_of(memory, function) != ObjectKind::kFunction) return;
    switch (role_of(memory, function)) {
        case Role::kWakeup:
            found.push_back({self, from.source, from.future, true});
            return;
        case Role::kTaskGroup: {
            const Group group = group_of(memory, self);
            if (group.parent != kNullAddress) {
                found.push_back({group.parent, EdgeSource::kTaskGroup, group.completed, false, self});
            }
            return;
        }
        case Role::kAsCompleted:
            open_queue(memory, read_attribute(memory, *layout_, self, "_done").value_or(kNullAddress),
                       EdgeSource::kAsCompleted);
            return;
        default:
            return;
    }
}

// Any cell of the closure that holds a future leads on. Of a callback that is not known that is likely, not certain. One
// that holds a queue says nothing: task_done() is called on a queue by who wakes nobody that waits for its next item. But
// as_completed() puts the task itself into its own queue.
void AwaiterFinder::take_function(Memory& memory, Address function, const Open& from,
                                  std::vector<FoundAwaiter>& found) {
    const Address closure = pointer(memory, function, asyncio_->function_closure);
    if (closure == kNullAddress && from.is_first) is_loops_own_ = role_of(memory, function) == Role::kRunUntilComplete;
    if (closure == kNullAddress || kinds_->kind_of(memory, closure) != ObjectKind::kTuple) return;
    const auto cells = read_tuple(memory, *layout_, closure, kMostCells);
    if (!cells) return;
    const Role role = role_of(memory, function);
    EdgeSource source = role == Role::kOther ? EdgeSource::kCallback : from.source;
    if (from.is_first) {
        source = role == Role::kGather         ? EdgeSource::kGather
                 : role == Role::kOnCompletion ? EdgeSource::kWait
                 : role == Role::kShield       ? EdgeSource::kShield
                 : role == Role::kChain        ? EdgeSource::kChained
                                               : EdgeSource::kCallback;
    }
    for (const Address cell : *cells) {
        if (kinds_->kind_of(memory, cell) != ObjectKind::kCell) continue;
        const Address content = pointer(memory, cell, static_cast<Offset>(layout_->object.header_size));
        if (!can_be_object(content)) continue;
        if (kinds_->kind_of(memory, content) != ObjectKind::kOther) {
            open(memory, content, source);
        } else if (role == Role::kChain && from.kind != ObjectKind::kOther) {
            open_concurrent(memory, content, from, found);
        } else if (role == Role::kAnyio) {
            const Address scope = read_attribute(memory, *layout_, content, "cancel_scope").value_or(kNullAddress);
            if (!can_be_object(scope)) continue;
            Address host = read_attribute(memory, *layout_, scope, "_host_task").value_or(kNullAddress);
            if (host == kNullAddress) host = read_slot(memory, *layout_, scope, "_host_task").value_or(kNullAddress);
            // In its __aexit__ the host waits for this future, and for nothing else.
            const Address completed = read_attribute(memory, *layout_, content, "_on_completed_fut").value_or(kNullAddress);
            if (host != kNullAddress) found.push_back({host, EdgeSource::kRecorded, completed, false, content});
        } else if (role == Role::kOnCompletion) {
            open_queue(memory, content, from.is_first ? EdgeSource::kAsCompleted : source);
        }
    }
}

void AwaiterFinder::take_partial(Memory& memory, Address partial, const Open& from) {
    const auto header = static_cast<Offset>(layout_->object.header_size);
    const Address function = pointer(memory, partial, header);
    const Address arguments = pointer(memory, partial, header + 8);
    if (kinds_->kind_of(memory, arguments) != ObjectKind::kTuple) return;
    const auto items = read_tuple(memory, *layout_, arguments, kMostCells);
    if (!items) return;
    const bool is_function = kinds_->kind_of(memory, function) == ObjectKind::kFunction;
    const bool is_wait_for = is_function && role_of(memory, function) == Role::kReleaseWaiter;
    EdgeSource source = is_wait_for ? from.source : EdgeSource::kCallback;
    if (is_wait_for && from.is_first) source = EdgeSource::kWaitFor;
    for (const Address item : *items) open(memory, item, source);
}

// asyncio.Queue._getters: the futures of those who wait for an item.
void AwaiterFinder::open_queue(Memory& memory, Address queue, EdgeSource source) {
    if (!can_be_object(queue)) return;
    const auto type = read_type(memory, *layout_, queue);
    if (!type || !kinds_->name_of_type(memory, *type).ends_with("Queue")) return;
    const Address getters = read_attribute(memory, *layout_, queue, "_getters").value_or(kNullAddress);
    if (getters == kNullAddress || kinds_->kind_of(memory, getters) != ObjectKind::kDeque) return;
    for (const Address item : read_deque(memory, *layout_, getters, kMostGetters)) open(memory, item, source);
}

void AwaiterFinder::take_awaiting_object(Memory& memory, Address object, const Open& from,
                                         std::vector<FoundAwaiter>& found) {
    if (is_task(kinds_->kind_of(memory, object))) {
        found.push_back({object, EdgeSource::kAwaitedBy, from.future, false});
    } else {
        open(memory, object, EdgeSource::kAwaitedBy);
    }
}

// fut_awaited_by: nothing, one future, or a set of them.
void AwaiterFinder::take_awaited_by(Memory& memory, const Open& from, std::vector<FoundAwaiter>& found) {
    if (!has(asyncio_->future.awaited_by)) return;
    if (from.kind != ObjectKind::kTask && from.kind != ObjectKind::kFuture) return;
    const Address by = pointer(memory, from.future, asyncio_->future.awaited_by);
    if (!can_be_object(by)) return;
    const auto is_set = read_value<std::uint8_t>(memory, from.future + at(asyncio_->future.awaited_by_is_set));
    if (!is_set) return;
    if (*is_set == 0) {
        take_awaiting_object(memory, by, from, found);
        return;
    }
    if (kinds_->kind_of(memory, by) != ObjectKind::kSet) return;
    const auto items = read_set(memory, *layout_, by, left_);
    if (!items) return;
    for (const Address item : *items) {
        if (left_ == 0) return;
        --left_;
        take_awaiting_object(memory, item, from, found);
    }
}

}  // namespace pyprof
