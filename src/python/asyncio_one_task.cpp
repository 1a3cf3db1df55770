// SPDX-License-Identifier: Apache-2.0
//
// One task, of asyncio in C or in Python or of trio: its state, its coroutines and the awaiters that its callbacks name. A
// single try, of whatever the pages hold: what contradicts itself is refused, and whether all of it was there at one
// moment is for the caller to know.
#include "python/asyncio_state.h"

#include "python/objects.h"

#include <span>

namespace pyprof {

namespace {

constexpr Address kNoAddress{~0ULL};

}  // namespace

bool AsyncioReader::is_pending_python(Address future) {
    const auto state = read_attribute(*pages_, *layout_, future, "_state");
    if (!state) return false;
    if (*state == kNullAddress) return true;  // the class's default
    return read_unicode(*pages_, *layout_, *state, 16) == "PENDING";
}

bool AsyncioReader::is_done(Address future, ObjectKind kind) {
    if (kind == ObjectKind::kPythonTask || kind == ObjectKind::kPythonFuture) return !is_pending_python(future);
    return read_value<std::int32_t>(*pages_, future + at(asyncio_.future.state)).value_or(0) != 0;
}

bool AsyncioReader::read_c_task(Interpreter& interpreter, AsyncTask& task, Found& found) {
    // Not the reference count, which changes while the task stays as it is.
    const auto header = layout_->object.header_size;
    if (!read_bytes(*pages_, task.address + header, std::span(task_bytes_).subspan(header))) return false;
    const auto pointer = [&](Offset offset) { return Address{load<std::uint64_t>(task_bytes_.data(), at(offset))}; };
    found.is_pending = load<std::int32_t>(task_bytes_.data(), at(asyncio_.future.state)) == 0;
    task.loop = pointer(asyncio_.future.loop);
    task.coroutine = pointer(asyncio_.task.coroutine);
    task.waits_for = pointer(asyncio_.task.fut_waiter);
    if (has(asyncio_.task.context)) task.context = pointer(asyncio_.task.context);
    found.name = pointer(asyncio_.task.name);
    found.name_is_int = can_be_object(found.name) && interpreter.kinds.kind_of(*pages_, found.name) == ObjectKind::kInt;
    return true;
}

bool AsyncioReader::read_python_task(Interpreter&, AsyncTask& task, Found& found) {
    const auto attribute = [&](const char* name) {
        return read_attribute(*pages_, *layout_, task.address, name).value_or(kNoAddress);
    };
    task.is_python = true;
    task.coroutine = attribute("_coro");
    if (task.coroutine == kNoAddress) return false;
    task.loop = attribute("_loop");
    task.waits_for = attribute("_fut_waiter");
    task.context = attribute("_context");
    found.name = attribute("_name");
    found.is_pending = is_pending_python(task.address);
    return true;
}

// A task that waits at the end of a nursery waits for those that were started in it, as if that were a future.
bool AsyncioReader::read_task_of_trio(Interpreter& interpreter, Found& found) {
    using End = CoroutineChain::End;
    AsyncTask& task = found.task;
    TrioTask own;
    if (!interpreter.trio || !read_trio_task(*pages_, *layout_, *interpreter.trio, task.address, own)) return false;
    found.is_pending = true;  // one that is done is no longer listed, and its coroutine at its end
    task.is_python = true;
    task.loop = own.runner;
    task.coroutine = own.coroutine;
    task.waits_for = own.ends_nursery;
    task.is_loops_own = own.parent == kNullAddress;
    interpreter.coroutines.read_chain(*pages_, task.coroutine, chain_);
    if (chain_.end == End::kTorn || chain_.end == End::kFinished) return false;
    task.end = chain_.end;
    task.state = own.is_scheduled ? TaskState::kReady : TaskState::kWaiting;
    if (chain_.end == End::kExecuting) {
        task.state = TaskState::kRunning;
        if (!is_stopped_ && chain_.frames.size() != 1) return false;
    }
    if (chain_.end == End::kCreated) task.has_begun = chain_.frames.size() > 1;
    if (own.parent != kNullAddress) {
        found.awaiters.push_back({own.parent, EdgeSource::kRecorded, own.nursery, false, own.nursery});
    }
    if (own.name != kNullAddress && interpreter.kinds.kind_of(*pages_, own.name) == ObjectKind::kStr) {
        task.name.given = names_.read_text(*pages_, own.name);
    }
    task.name.number = own.number;
    return true;
}

// False: state and coroutine contradict each other.
bool AsyncioReader::set_state(AsyncTask& task, const CoroutineChain& chain) {
    using End = CoroutineChain::End;
    task.end = chain.end;
    task.awaited = chain.awaited;
    task.awaited_kind = chain.awaited_kind;
    switch (chain.end) {
        case End::kTorn:
        case End::kFinished:
            return false;
        case End::kExecuting:
            // What a suspended one awaits can't execute: another thread would have to drive it.
            task.state = TaskState::kRunning;
            return is_stopped_ ? task.waits_for == kNullAddress || chain.frames.size() > 1
                               : task.waits_for == kNullAddress && chain.frames.size() == 1;
        case End::kCreated:
            task.has_begun = chain.frames.size() > 1;
            break;
        case End::kAwaitable:
            // A coroutine that stands at a future has handed just that one to its task.
            if (!is_stopped_ && task.waits_for != kNullAddress && is_future(chain.awaited_kind) &&
                chain.awaited != task.waits_for) {
                return false;
            }
            break;
        case End::kYield:
        case End::kEndless:
            break;
    }
    // A library may have futures of its own (_asyncio_future_blocking is all that it takes): whether such a one is done
    // nobody knows here.
    const bool is_ready = task.waits_for == kNullAddress || (is_future(task.waits_for_kind) && is_done(task.waits_for, task.waits_for_kind));
    task.state = is_ready ? TaskState::kReady : TaskState::kWaiting;
    return true;
}

StringId AsyncioReader::type_text(Interpreter& interpreter, Address object) {
    const auto type = can_be_object(object) ? read_type(*pages_, *layout_, object) : std::nullopt;
    return type ? stacks_->intern_string(interpreter.kinds.name_of_type(*pages_, *type)) : kNoString;
}

// One try. False: what was read contradicts itself. found.is_pending false: it is done, and no longer listed.
bool AsyncioReader::read_task(Interpreter& interpreter, Address address, ObjectKind kind, Found& found) {
    found.task = AsyncTask{};
    found.awaiters.clear();
    found.is_pending = false;
    found.main_greenlet = kNullAddress;
    AsyncTask& task = found.task;
    task.address = address;
    task.interpreter = interpreter.address;
    if (kind == ObjectKind::kGreenlet) return read_greenlet(interpreter, found);
    if (kind == ObjectKind::kTrioTask) {
        if (!read_task_of_trio(interpreter, found)) return false;
        read_texts(interpreter, task);
        task.identity = task.name.number;
        return true;
    }
    if (!(kind == ObjectKind::kTask ? read_c_task(interpreter, task, found) : read_python_task(interpreter, task, found)))
        return false;
    if (!found.is_pending) return true;
    if (!can_be_object(task.coroutine)) return false;
    if (task.waits_for != kNullAddress) {
        task.waits_for_kind = interpreter.kinds.kind_of(*pages_, task.waits_for);
        if (task.waits_for_kind == ObjectKind::kNone) task.waits_for = kNullAddress;
        if (task.waits_for_kind == ObjectKind::kUnreadable) return false;
    }
    interpreter.coroutines.read_chain(*pages_, task.coroutine, chain_);
    if (!set_state(task, chain_)) return false;
    found.main_greenlet = chain_.main_greenlet;
    interpreter.awaiters.find(*pages_, address, kind, found.awaiters);
    task.is_loops_own = interpreter.awaiters.is_loops_own();
    task.fills = interpreter.awaiters.filled();
    const bool has_origin = has(asyncio_.coroutine_origin) && !task.is_loops_own &&
                            interpreter.kinds.kind_of(*pages_, task.coroutine) == ObjectKind::kCoroutine;
    if (has_origin) task.origin = read_pointer(*pages_, task.coroutine + at(asyncio_.coroutine_origin)).value_or(kNullAddress);

    task.name = names_.read_name(*pages_, found.name, found.name_is_int);
    task.identity = task.name.number;
    read_texts(interpreter, task);
    return true;
}

void AsyncioReader::read_texts(Interpreter& interpreter, AsyncTask& task) {
    const auto qualname = read_pointer(*pages_, task.coroutine + at(layout_->generator.qualname));
    if (qualname && !chain_.frames.empty()) task.coroutine_name = names_.read_text(*pages_, *qualname);
    if (task.waits_for != kNullAddress) task.waits_for_type = type_text(interpreter, task.waits_for);
    if (task.awaited != kNullAddress) task.awaited_type = type_text(interpreter, task.awaited);
}

}  // namespace pyprof
