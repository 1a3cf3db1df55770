// SPDX-License-Identifier: Apache-2.0
//
// One look: lists of tasks, each task as asyncio_one_task.cpp reads it, then the edges, of which an awaiter that waits for
// something else is no end. Lists are bounded; what does not hold still is counted and left out.
#include "python/asyncio_tasks.h"

#include "python/asyncio_state.h"
#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr int kMostTries = 4;

// As the target itself sees it; 0 where that is not known.
pid_t own_pid_of(Target& target) {
    const auto threads = target.read_threads();
    if (!threads) return 0;
    for (const ThreadId& thread : *threads) {
        if (thread.tid == target.pid()) return thread.namespace_tid;
    }
    return 0;
}

}  // namespace

void TaskSweep::clear() {
    tasks.clear();
    frames.clear();
    edges.clear();
    order.clear();
    loops.clear();
    moments = 1;
    torn = 0;
    torn_tasks.clear();
    broken_lists = 0;
    was_held = false;
    searched = std::chrono::nanoseconds{0};
    search_again = std::chrono::nanoseconds{0};
}

AsyncioReader::AsyncioReader(Target& target, const Layout& layout, StackTable& stacks)
    : target_(&target), layout_(&layout), stacks_(&stacks), whole_(target.memory()), part_(target.memory()), names_(layout, stacks) {}

AsyncioReader::~AsyncioReader() = default;

bool AsyncioReader::find(std::span<const InterpreterState> interpreters) {
    std::erase_if(interpreters_, [&](const std::unique_ptr<Interpreter>& known) {
        return std::none_of(interpreters.begin(), interpreters.end(),
                            [&](const InterpreterState& state) { return state.address == known->address; });
    });
    // asyncio may be imported later than trio or gevent: then all is looked up anew.
    const auto has_it_now = [&](const std::unique_ptr<Interpreter>& known) {
        return !known->has_asyncio && find_asyncio_modules(target_->memory(), *layout_, known->address).has_value();
    };
    if (std::erase_if(interpreters_, has_it_now) > 0) has_layout_ = false;
    for (const InterpreterState& state : interpreters) {
        const bool is_known = std::any_of(interpreters_.begin(), interpreters_.end(),
                                          [&](const auto& known) { return known->address == state.address; });
        if (!is_known && problem_.empty()) add_interpreter(state.address);
    }
    for (const auto& known : interpreters_) {
        known->has_greenlets = pyprof::has_greenlets(target_->memory(), *layout_, known->address);
        known->coroutines.set_greenlets(known->has_greenlets ? &known->greenlets : nullptr);
        if (!known->trio) add_trio(*known);
        for (const InterpreterState& state : interpreters) {
            if (state.address == known->address) find_greenlets(*known, state);
        }
    }
    return is_found();
}

AsyncioReader::Interpreter* AsyncioReader::interpreter_at(Address address) const {
    const auto found = std::find_if(interpreters_.begin(), interpreters_.end(), [&](const auto& known) { return known->address == address; });
    return found == interpreters_.end() ? nullptr : found->get();
}

void AsyncioReader::add_interpreter(Address interpreter) {
    auto modules = find_asyncio_modules(target_->memory(), *layout_, interpreter);
    const bool has_asyncio = modules.has_value();
    const bool has_other = find_trio(target_->memory(), *layout_, interpreter) || find_gevent(target_->memory(), *layout_, interpreter);
    if (!has_asyncio && !has_other) return;
    const bool has_accelerator = has_asyncio && modules->types.task != kNullAddress;
    if (!has_asyncio) modules.emplace();
    if (!has_layout_ && !has_accelerator) {
        asyncio_ = layout_without_accelerator(*layout_);
        task_bytes_.resize(64);
    } else if (!has_layout_) {
        const auto debug = needs_asyncio_debug(*layout_) ? read_asyncio_debug(*target_) : std::vector<std::byte>();
        const auto asyncio = asyncio_layout_for(*layout_, debug);
        if (!asyncio) {
            problem_ = debug.empty() ? "the section .AsyncioDebug of _asyncio is not found"
                                     : "the section .AsyncioDebug of _asyncio makes no sense";
            return;
        }
        asyncio_ = *asyncio;
        task_bytes_.resize(std::max<std::size_t>(asyncio_.task.size, 64));
        has_layout_ = true;
    }
    if (const auto mismatch = find_asyncio_mismatch(target_->memory(), *layout_, asyncio_, modules->types)) {
        problem_ = *mismatch;
        return;
    }
    auto added = std::make_unique<Interpreter>(*layout_, asyncio_, target_->memory());
    added->address = interpreter;
    added->kinds.set_asyncio_types(modules->types);
    added->modules = std::move(*modules);
    added->has_asyncio = has_asyncio;
    if (asyncio_.loop_in_holder) added->own_pid = own_pid_of(*target_);
    interpreters_.push_back(std::move(added));
}

void AsyncioReader::add_trio(Interpreter& interpreter) {
    interpreter.trio = find_trio(target_->memory(), *layout_, interpreter.address);
    if (!interpreter.trio) return;
    interpreter.modules.types.trio_task = interpreter.trio->task_type;
    interpreter.kinds.set_asyncio_types(interpreter.modules.types);
}

// Those that are known stay where a thread's frames moved on while they were read.
template <class Find>
void AsyncioReader::find_runs(const ThreadList& threads, std::vector<LoopRun>& runs, Find&& find) {
    std::vector<LoopRun> found;
    for (const auto& interpreter : interpreters_) {
        for (const ThreadState& thread : threads.threads) {
            if (thread.interpreter != interpreter->address) continue;
            LoopRun run{interpreter->address, thread.address, kNullAddress};
            const FrameSearch search = find(*interpreter, thread.address, run.loop);
            const auto known = std::find_if(runs.begin(), runs.end(), [&](const LoopRun& one) { return one.thread == thread.address; });
            if (search == FrameSearch::kUnknown && known != runs.end()) run = *known;
            if (run.loop != kNullAddress) found.push_back(run);
        }
    }
    runs = std::move(found);
}

void AsyncioReader::find_runs_by_frames(const ThreadList& threads) {
    Memory& memory = target_->memory();
    find_runs(threads, trio_runs_, [&](const Interpreter& interpreter, Address thread, Address& loop) {
        return interpreter.trio ? find_trio_runner(memory, *layout_, *interpreter.trio, thread, loop) : FrameSearch::kNone;
    });
    // Without the accelerator a thread notes its loop in a threading.local.
    find_runs(threads, python_runs_, [&](const Interpreter& interpreter, Address thread, Address& loop) {
        constexpr LoopFrame kRuns{"run_forever", "asyncio/base_events.py", "self"};
        const auto is_loop = [&](Address object) { return read_attribute(memory, *layout_, object, "_ready").value_or(kNullAddress) != kNullAddress; };
        const bool is_wanted = interpreter.has_asyncio && interpreter.modules.types.task == kNullAddress;
        return is_wanted ? find_loop_by_frame(memory, *layout_, thread, kRuns, is_loop, loop) : FrameSearch::kNone;
    });
}

// Up to 3.12: the thread's dict holds the running loop, or up to 3.11 a holder of {loop, pid}.
Address AsyncioReader::running_loop_of_dict(Address thread) {
    const auto dict = read_pointer(*pages_, thread + at(layout_->thread.dict));
    if (!dict || !can_be_object(*dict)) return kNullAddress;
    const Address held = find_in_dict(*pages_, *layout_, *dict, "__asyncio_running_event_loop__").value_or(kNullAddress);
    if (!can_be_object(held) || !asyncio_.loop_in_holder) return held;
    const Address loop = held + layout_->object.header_size;
    const pid_t own_pid = interpreters_.front()->own_pid;
    if (own_pid != 0 && read_value<std::int32_t>(*pages_, loop + 8).value_or(0) != own_pid) return kNullAddress;
    return read_pointer(*pages_, loop).value_or(kNullAddress);
}

std::uint64_t AsyncioReader::read_context_version(Address thread) {
    if (!has(asyncio_.thread.context_version)) return 0;
    return read_value<std::uint64_t>(*pages_, thread + at(asyncio_.thread.context_version)).value_or(0);
}

RunningLoop AsyncioReader::running_in(Address thread, Address loop) {
    RunningLoop running;
    running.thread = thread;
    running.loop = loop;
    running.context_version = read_context_version(thread);
    return running;
}

void AsyncioReader::read_loops(const ThreadList& threads, std::vector<RunningLoop>& loops) {
    const AsyncioLayout::Thread& layout = asyncio_.thread;
    for (const ThreadState& thread : threads.threads) {
        const bool is_of_ours =
            std::any_of(interpreters_.begin(), interpreters_.end(),
                        [&](const auto& interpreter) { return interpreter->address == thread.interpreter; });
        if (!is_of_ours) continue;
        const Address loop = has(layout.running_loop)
                                 ? read_pointer(*pages_, thread.address + at(layout.running_loop)).value_or(kNullAddress)
                                 : running_loop_of_dict(thread.address);
        if (!can_be_object(loop)) continue;
        RunningLoop running = running_in(thread.address, loop);
        if (has(layout.running_task)) {
            running.running_task =
                read_pointer(*pages_, thread.address + at(layout.running_task)).value_or(kNullAddress);
        }
        loops.push_back(running);
    }
    const auto add_runs = [&](const std::vector<LoopRun>& runs, bool are_trios) {
        for (const LoopRun& run : runs) {
            loops.push_back(running_in(run.thread, run.loop));
            loops.back().is_trios = are_trios;
        }
    };
    add_runs(trio_runs_, true);
    add_runs(python_runs_, false);
    add_hubs(threads, loops);
}

// Reads until every byte of one try stood there at one moment. False: it never did.
template <class Read>
bool AsyncioReader::read_whole(Read&& read) {
    for (int i = 0; i < kMostTries; ++i) {
        if (i > 0) pages_->copy_log_again();
        pages_->start_log();
        const bool makes_sense = read();
        pages_->stop_log();
        if (is_stopped_) return makes_sense;
        if (is_single_ && makes_sense) return true;
        if (pages_->check_log() != PageCache::Agreement::kEqual) continue;
        return makes_sense;
    }
    return false;
}

// A circle of nodes {next, prev} within the tasks, with a head that is none (pycore_llist.h).
bool AsyncioReader::list_linked(Address head, Address owner) {
    Address node = read_pointer(*pages_, head).value_or(kNullAddress);
    Address previous = head;
    if (node == kNullAddress && owner != kNullAddress) return true;  // never set up
    while (node != head) {
        const auto links = can_be_object(node) ? read_value<std::array<std::uint64_t, 2>>(*pages_, node) : std::nullopt;
        if (!links || Address{(*links)[1]} != previous || listed_.size() >= kMostAsyncTasks) return false;
        listed_.push_back(node - at(asyncio_.task.node));
        previous = node;
        node = Address{(*links)[0]};
    }
    return true;
}

// A set of tasks, or a WeakSet, whose attribute `data` is a set of weak references.
bool AsyncioReader::list_set(Interpreter& interpreter, Address set, bool is_weak) {
    if (is_weak) set = read_attribute(*pages_, *layout_, set, "data").value_or(kNullAddress);
    if (interpreter.kinds.kind_of(*pages_, set) != ObjectKind::kSet) return false;
    const auto members = read_set(*pages_, *layout_, set, kMostAsyncTasks);
    if (!members) return false;
    for (const Address member : *members) {
        if (!is_weak) {
            listed_.push_back(member);
            continue;
        }
        if (interpreter.kinds.kind_of(*pages_, member) != ObjectKind::kWeakref) continue;
        const auto task = read_pointer(*pages_, member + layout_->object.header_size);
        if (task && can_be_object(*task)) listed_.push_back(*task);
    }
    return true;
}

void AsyncioReader::list_tasks(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep) {
    interpreter.listed.clear();
    seen_.clear();
    const auto take = [&](auto&& list) {
        listed_.clear();
        const bool is_whole = read_whole([&] {
            if (!is_single_) listed_.clear();
            return list();
        });
        if (!is_whole) ++sweep.broken_lists;  // what was listed are candidates all the same: each is judged by itself
        for (const Address task : listed_) {
            if (seen_.insert(raw(task)).second) interpreter.listed.push_back(task);
        }
    };
    if (has(asyncio_.task.node)) {
        for (const ThreadState& thread : threads.threads) {
            if (thread.interpreter != interpreter.address) continue;
            take([&] { return list_linked(thread.address + at(asyncio_.thread.tasks_head), thread.address); });
        }
        take([&] {
            return list_linked(interpreter.address + at(asyncio_.interpreter_tasks_head), interpreter.address);
        });
    }
    for (const Address set : interpreter.modules.weak_sets) take([&] { return list_set(interpreter, set, true); });
    for (const LoopRun& run : trio_runs_) {
        if (run.interpreter != interpreter.address || !interpreter.trio) continue;
        take([&] { return list_trio_tasks(*pages_, *layout_, *interpreter.trio, run.loop, kMostAsyncTasks, listed_); });
    }
    for (const Address set : interpreter.modules.eager_sets) take([&] { return list_set(interpreter, set, false); });
    if (interpreter.hubs.empty()) return;
    for (const Address greenlet : interpreter.greenlets_found) {
        if (seen_.insert(raw(greenlet)).second) interpreter.listed.push_back(greenlet);
    }
    find_callbacks(interpreter);
}

void AsyncioReader::read_tasks(Interpreter& interpreter, TaskSweep& sweep) {
    Found found;
    for (const Address address : interpreter.listed) {
        if (index_.find(raw(address)) != index_.end() || sweep.tasks.size() >= kMostAsyncTasks) continue;
        bool is_task_at_all = false;
        const bool is_whole = read_whole([&] {
            const ObjectKind kind = interpreter.kinds.kind_of(*pages_, address);
            is_task_at_all = is_task(kind);
            return is_task_at_all && read_task(interpreter, address, kind, found);
        });
        if (!is_whole) {
            if (is_task_at_all) ++sweep.torn;
            continue;
        }
        if (!found.is_pending) continue;
        AsyncTask& task = found.task;
        for (const RunningLoop& running : sweep.loops) {
            if (running.loop != task.loop) continue;
            task.thread = running.thread;
            task.is_current = running.running_task == task.address;
        }
        note_main_greenlet(interpreter, task, found.main_greenlet);
        task.first_frame = static_cast<std::uint32_t>(sweep.frames.size());
        task.frame_count = static_cast<std::uint32_t>(chain_.frames.size());
        sweep.frames.insert(sweep.frames.end(), chain_.frames.rbegin(), chain_.frames.rend());
        index_[raw(address)] = static_cast<TaskIndex>(sweep.tasks.size());
        if (awaiters_.size() <= sweep.tasks.size()) awaiters_.emplace_back();
        std::swap(awaiters_[sweep.tasks.size()], found.awaiters);
        sweep.order.push_back(raw(address));
        sweep.tasks.push_back(task);
    }
}

// Who is told as an awaiter and waits for something else was one, or will be; at rest that may be shown.
bool AsyncioReader::is_claim_alone(const FoundAwaiter& awaiter) const {
    return awaiter.must_wait || (awaiter.source == EdgeSource::kAwaitedBy && !is_stopped_);
}

void AsyncioReader::resolve_edges(TaskSweep& sweep) {
    for (TaskIndex task = 0; task < sweep.tasks.size(); ++task) {
        for (const FoundAwaiter& awaiter : awaiters_[task]) {
            const auto known = index_.find(raw(awaiter.task));
            if (known == index_.end()) continue;  // done, or never a task of asyncio
            const Address waits_for = sweep.tasks[known->second].waits_for;
            const bool is_wait = waits_for != kNullAddress && waits_for == awaiter.through;
            if (!is_wait && is_claim_alone(awaiter)) continue;
            sweep.edges.push_back({task, known->second, awaiter.source, is_wait});
            if (is_wait || !is_stopped_ || awaiter.group == kNullAddress || interpreters_.size() != 1) continue;
            const auto frames = sweep.frames_of(sweep.tasks[known->second]);
            sweep.edges.back().depth = interpreters_.front()->holders.depth_of(*pages_, frames, awaiter.group);
        }
    }
}

void AsyncioReader::sweep(const ThreadList& threads, bool is_stopped, TaskSweep& sweep) {
    sweep.clear();
    index_.clear();
    if (interpreters_.empty()) return;
    is_stopped_ = is_stopped;
    pages_ = &whole_;
    forget_now_and_then();
    find_runs_by_frames(threads);
    pages_->begin_look(!is_stopped);
    read_loops(threads, sweep.loops);
    for (const auto& interpreter : interpreters_) {
        interpreter->awaiters.begin_look();
        find_new_greenlets(*interpreter, threads);
        if (interpreter->gevent) find_waits(*interpreter);
        list_tasks(*interpreter, threads, sweep);
        read_tasks(*interpreter, sweep);
        interpreter->callbacks.clear();
    }
    resolve_edges(sweep);
    if (is_stopped) find_holders(sweep);
}

}  // namespace pyprof
