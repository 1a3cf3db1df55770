// SPDX-License-Identifier: Apache-2.0
//
// Greenlets of gevent as tasks: a hub is the loop of its thread, and each switch counts in the thread's context_ver as a
// callback of asyncio does. No list of greenlets is kept, so they are looked for among all objects now and then, and among
// the newest ones more often; what awaits or has made a known one is come to by its edges. The main greenlet of a thread is
// a task, too: its frames are the thread's own from the root on. The hub is none.
#include "python/asyncio_state.h"

#include "base/clock.h"
#include "python/gevent_loop.h"
#include "python/objects.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kMostObjects = 2'000'000;  // of one walk; some 0.1 us each
constexpr std::size_t kMostTypes = 1U << 16;
constexpr nanoseconds kPauseAfterWalk = std::chrono::seconds(1);
// The two younger generations of the collector, of 700 objects and ten times that, or of 2,000 (3.14).
constexpr std::size_t kNewObjects = 10'000;
constexpr nanoseconds kPauseAfterNew = std::chrono::milliseconds(20);
constexpr int kLongestShare = 50;  // a walk is followed by a pause of so many times its length

}  // namespace

// Looks among all objects, unless it was done a little while ago.
void AsyncioReader::find_greenlets(Interpreter& interpreter, const InterpreterState& state) {
    if (!interpreter.gevent) interpreter.gevent = find_gevent(target_->memory(), *layout_, interpreter.address);
    const nanoseconds now = monotonic_now();
    if (!interpreter.gevent || now < interpreter.next_walk) return;
    const nanoseconds began = thread_cpu_time();
    interpreter.waited_at.clear();
    walk_objects(interpreter, state, kMostObjects);
    interpreter.next_walk = now + std::max(kPauseAfterWalk, kLongestShare * (thread_cpu_time() - began));
}

// Among those that were made last, more often.
void AsyncioReader::find_new_greenlets(Interpreter& interpreter, const ThreadList& threads) {
    const nanoseconds now = monotonic_now();
    if (interpreter.hubs.empty() || now < interpreter.next_new) return;
    const nanoseconds began = thread_cpu_time();
    for (const InterpreterState& state : threads.interpreters) {
        if (state.address == interpreter.address) walk_objects(interpreter, state, kNewObjects);
    }
    interpreter.next_new = now + std::max(kPauseAfterNew, kLongestShare * (thread_cpu_time() - began));
}

void AsyncioReader::walk_objects(Interpreter& interpreter, const InterpreterState& state, std::size_t most) {
    Memory& memory = target_->memory();
    std::vector<Address> found;
    const bool wants_waits = most == kMostObjects || is_stopped_;  // a recording doesn't tell what they wait at
    const bool is_whole = interpreter.gc.walk(state, most, [&](Address object, Address type) {
        const ObjectKind kind = interpreter.kinds.kind_of_type(memory, type);
        if (kind == ObjectKind::kGreenlet) found.push_back(object);
        if (kind != ObjectKind::kOther || !wants_waits) return;
        const auto known = interpreter.types_waited_at.find(raw(type));
        const bool is_wanted = known != interpreter.types_waited_at.end() ? known->second
                                                                          : interpreter.types_waited_at[raw(type)] = is_waited_at(memory, *layout_, type);
        if (is_wanted && interpreter.waited_at.size() < kMostAsyncTasks) interpreter.waited_at.push_back(object);
    });
    if (interpreter.types_waited_at.size() > kMostTypes) interpreter.types_waited_at.clear();
    if (!is_whole) {  // those behind the place where it was left may well be there still
        found.insert(found.end(), interpreter.greenlets_found.begin(), interpreter.greenlets_found.end());
        std::sort(found.begin(), found.end(), [](Address a, Address b) { return raw(a) < raw(b); });
        found.erase(std::unique(found.begin(), found.end()), found.end());
    }
    if (found.size() > kMostAsyncTasks) found.resize(kMostAsyncTasks);
    interpreter.greenlets_found = std::move(found);
    if (most == kMostObjects) find_hubs(interpreter);
}

void AsyncioReader::find_hubs(Interpreter& interpreter) {
    Memory& memory = target_->memory();
    std::vector<Interpreter::Hub> hubs;
    std::vector<Address> others;
    for (const Address greenlet : interpreter.greenlets_found) {
        if (interpreter.kinds.kind_of(memory, greenlet) != ObjectKind::kGreenlet) continue;
        // The first one that is suspended tells where greenlets keep what.
        (void)interpreter.greenlets.read(memory, greenlet);
        if (is_instance(memory, *layout_, greenlet, interpreter.gevent->hub_type)) {
            hubs.push_back({greenlet, kNullAddress, thread_of_hub(memory, *layout_, greenlet),
                            find_callback_queue(memory, *layout_, interpreter.kinds, greenlet)});
        } else {
            others.push_back(greenlet);
        }
    }
    for (Interpreter::Hub& hub : hubs) hub.main = interpreter.greenlets.read(memory, hub.address).main;
    std::erase_if(hubs, [](const Interpreter::Hub& hub) { return hub.main == kNullAddress || hub.pthread == 0; });
    interpreter.hubs = std::move(hubs);
    interpreter.greenlets_found = std::move(others);
}

// Which object is to wake whom, of those that were found; one may have woken whom it held, or be gone.
void AsyncioReader::find_waits(Interpreter& interpreter) {
    interpreter.waits_at.clear();
    std::vector<Address> greenlets;
    for (const Address object : interpreter.waited_at) {
        const auto type = read_type(*pages_, *layout_, object);
        if (!type || interpreter.types_waited_at.find(raw(*type)) == interpreter.types_waited_at.end()) continue;
        if (!interpreter.types_waited_at.at(raw(*type))) continue;
        greenlets.clear();
        find_waiting(*pages_, *layout_, interpreter.kinds, *interpreter.gevent, object, greenlets);
        for (const Address greenlet : greenlets) interpreter.waits_at[raw(greenlet)] = object;
    }
}

// Which callback is to switch to whom; each is read once more with its greenlet.
void AsyncioReader::find_callbacks(Interpreter& interpreter) {
    interpreter.callbacks.clear();
    std::vector<DueGreenlet> due;
    for (const Interpreter::Hub& hub : interpreter.hubs) {
        if (hub.queue != kNullAddress) find_due(*pages_, *layout_, interpreter.kinds, *interpreter.gevent, hub.queue, due);
    }
    for (const DueGreenlet& one : due) interpreter.callbacks[raw(one.greenlet)] = one.callback;
}

bool AsyncioReader::is_due(Interpreter& interpreter, Address greenlet) {
    const auto known = interpreter.callbacks.find(raw(greenlet));
    return known != interpreter.callbacks.end() &&
           greenlet_of_callback(*pages_, *layout_, interpreter.kinds, *interpreter.gevent, known->second) == greenlet;
}

void AsyncioReader::add_hubs(const ThreadList& threads, std::vector<RunningLoop>& loops) {
    for (const auto& interpreter : interpreters_) {
        for (const Interpreter::Hub& hub : interpreter->hubs) {
            for (const ThreadState& thread : threads.threads) {
                if (thread.interpreter != interpreter->address || thread.pthread != hub.pthread) continue;
                const bool has_loop = std::any_of(loops.begin(), loops.end(), [&](const RunningLoop& loop) { return loop.thread == thread.address; });
                if (has_loop) continue;
                loops.push_back(running_in(thread.address, hub.address));
                loops.back().is_hub = true;
            }
        }
    }
}

// False: what was read contradicts itself. found.is_pending false: it has ended, or is none of a hub that is known.
bool AsyncioReader::read_greenlet(Interpreter& interpreter, Found& found) {
    AsyncTask& task = found.task;
    chain_.frames.clear();
    if (!interpreter.gevent || is_instance(*pages_, *layout_, task.address, interpreter.gevent->hub_type)) return true;
    const Greenlet own = interpreter.greenlets.read(*pages_, task.address);
    if (own.state == GreenletState::kUnreadable) return false;
    const auto hub = std::find_if(interpreter.hubs.begin(), interpreter.hubs.end(), [&](const Interpreter::Hub& one) {
        return own.main != kNullAddress ? one.main == own.main : one.address == own.parent;
    });
    if (own.state == GreenletState::kEnded || hub == interpreter.hubs.end()) return true;

    task.is_greenlet = true;
    task.is_main_greenlet = own.is_main;
    task.is_loops_own = true;  // who made it is not to be guessed
    task.loop = hub->address;
    task.coroutine = own.pimpl;
    task.identity = raw(own.pimpl);
    task.end = CoroutineChain::End::kYield;
    GeventGreenlet kept;
    const bool is_gevents = is_instance(*pages_, *layout_, task.address, interpreter.gevent->greenlet_type);
    if (is_gevents && !read_gevent_greenlet(*pages_, *layout_, interpreter.kinds, *interpreter.gevent, task.address, kept)) {
        kept = GeventGreenlet{};  // gevent in pure Python: it stands by itself
    }
    task.state = own.state == GreenletState::kRunning ? TaskState::kRunning : TaskState::kWaiting;
    if (own.state == GreenletState::kUnbegun) {
        if (kept.start_event == kNullAddress) return true;  // nobody has started it
        task.has_begun = false;
        set_wait(interpreter, task, kept.start_event);
    }
    if (own.state == GreenletState::kSuspended || own.state == GreenletState::kFrameless) {
        const bool has_frames = own.state == GreenletState::kSuspended;
        if (has_frames && !interpreter.greenlets.read_frames(*pages_, task.address, chain_.frames)) return false;
        std::reverse(chain_.frames.begin(), chain_.frames.end());
        task.waits_for = task.address;  // who is to wake it is told so
        const auto wait = interpreter.waits_at.find(raw(task.address));
        if (is_due(interpreter, task.address)) {
            task.state = TaskState::kReady;
        } else if (wait != interpreter.waits_at.end()) {
            set_wait(interpreter, task, wait->second);
        }
    }
    found.is_pending = true;
    task.identity ^= kept.identity;
    take_edges(kept, found);
    read_names(interpreter, task);
    return true;
}

// Its loop is to switch to it at once, or the object is.
void AsyncioReader::set_wait(Interpreter& interpreter, AsyncTask& task, Address object) {
    const StringId type = type_text(interpreter, object);
    if (stacks_->string(type) == "callback") {
        task.state = TaskState::kReady;
    } else {
        task.waits_for_type = type;
    }
}

// Who waits for its end; else who spawned it.
void AsyncioReader::take_edges(const GeventGreenlet& kept, Found& found) {
    for (const WokenGreenlet& joiner : kept.joiners) {
        found.awaiters.push_back({joiner.greenlet, joiner.by_waiter ? EdgeSource::kWait : EdgeSource::kJoin, joiner.greenlet, true, kNullAddress});
    }
    found.task.origin = kept.spawning_stack;
    if (!found.awaiters.empty()) return;
    if (kept.spawner != kNullAddress) {
        found.awaiters.push_back({kept.spawner, EdgeSource::kRecorded, kNullAddress, false, kNullAddress});
    }
}

void AsyncioReader::read_names(Interpreter& interpreter, AsyncTask& task) {
    if (task.is_main_greenlet) {
        task.coroutine_name = stacks_->intern_string("main greenlet");
        return;
    }
    const Address given = given_name_of(*pages_, *layout_, interpreter.kinds, task.address);
    if (given != kNullAddress) task.name.given = names_.read_text(*pages_, given);
    Address run = run_name_of(*pages_, *layout_, interpreter.kinds, task.address);
    // A class of its own has a method for it, and more of a name than that.
    const bool is_plain = read_type(*pages_, *layout_, task.address) == interpreter.gevent->greenlet_type ||
                          !is_instance(*pages_, *layout_, task.address, interpreter.gevent->greenlet_type);
    if (run == kNullAddress && is_plain && !chain_.frames.empty()) {
        run = read_pointer(*pages_, chain_.frames.front().code + at(shown_name(layout_->code))).value_or(kNullAddress);
    }
    const bool has_name = can_be_object(run) && interpreter.kinds.kind_of(*pages_, run) == ObjectKind::kStr;
    task.coroutine_name = has_name ? names_.read_text(*pages_, run) : type_text(interpreter, task.address);
}

}  // namespace pyprof
