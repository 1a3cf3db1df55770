// SPDX-License-Identifier: Apache-2.0
#include "sample/dump_tasks.h"

#include "python/coroutine_origin.h"
#include "python/thread_waits.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace pyprof {

namespace {

// uvloop.run() wraps the coroutine that it is given into one of its own, which is machinery. True: it was left out.
bool leave_out_wrapper(DumpTask& task) {
    if (task.frames.size() < 2) return false;
    const DumpFrame& outermost = task.frames.back();
    const bool is_wrapper = (outermost.name == "run.<locals>.wrapper" || outermost.name == "wrapper") && outermost.file.ends_with("uvloop/__init__.py");
    if (!is_wrapper) return false;
    task.frames.pop_back();
    task.coroutine = task.frames.back().name;
    return true;
}

}  // namespace

std::vector<DumpFrame> DumpTasks::text_of(std::vector<RawFrame> frames) {
    Walk walk;
    walk.frames = std::move(frames);
    walk.end = WalkEnd::kRoot;
    StackBuilder::Chain chain;
    const bool is_whole = builder_->build(walk, chain) != StackBuilder::Built::kTorn;
    std::vector<DumpFrame> shown;
    if (!is_whole) shown.push_back({FrameKind::kMarker, "[unproved]", "", 0});
    for (StackId stack = builder_->stack_of(chain); stack != kRootStack; stack = stacks_->node(stack).parent) {
        const Frame& frame = stacks_->frame(stacks_->node(stack).frame);
        shown.push_back({frame.kind, std::string(stacks_->string(frame.name)), std::string(stacks_->string(frame.file)),
                         frame.line});
    }
    return shown;
}

// Of a running task the thread's frames, from the leaf or from below the next task that it runs in its own
// step (eager tasks nest) to its own coroutine.
std::vector<DumpFrame> DumpTasks::frames_of(const AsyncTask& task, std::span<const DumpWalk> walks) {
    const std::span<const RawFrame> chain = sweep_.frames_of(task);
    std::vector<RawFrame> frames(chain.begin(), chain.end());
    if (task.is_greenlet && task.state == TaskState::kRunning) return frames_of_thread(task.thread, walks);
    if (task.state != TaskState::kRunning || chain.empty()) return text_of(std::move(frames));
    tsl::robin_set<std::uint64_t> roots;
    for (const AsyncTask& other : sweep_.tasks) {
        if (other.state != TaskState::kRunning || other.frame_count == 0) continue;
        roots.insert(raw(sweep_.frames_of(other).back().address));
    }
    for (const DumpWalk& walk : walks) {
        const auto own = std::find_if(walk.frames.begin(), walk.frames.end(), [&](const RawFrame& frame) {
            return frame.address == chain.back().address;
        });
        if (own == walk.frames.end()) continue;
        auto begin = own;
        while (begin != walk.frames.begin() && !roots.contains(raw((begin - 1)->address))) --begin;
        frames.assign(begin, own + 1);
    }
    add_greenlets(task, frames);
    return text_of(std::move(frames));
}

// Those that are suspended between two coroutines of a task that runs.
void DumpTasks::add_greenlets(const AsyncTask& task, std::vector<RawFrame>& frames) {
    if (!is_stopped_) return;
    const RunningLoop* loop = reader_->loop_of(task.thread);
    const std::vector<RawFrame> root_first(frames.rbegin(), frames.rend());
    std::vector<AsyncioReader::Between> found;
    if (loop == nullptr || !reader_->read_between(*loop, task.interpreter, 0, root_first, found)) return;
    for (const AsyncioReader::Between& between : found) {  // those further out stand further behind
        const auto place = frames.begin() + static_cast<std::ptrdiff_t>(root_first.size() - between.inner);
        frames.insert(place, between.frames.begin(), between.frames.end());
    }
}

// A thread's stack is that of the greenlet that runs in it, to its bottom.
std::vector<DumpFrame> DumpTasks::frames_of_thread(Address thread, std::span<const DumpWalk> walks) {
    for (const DumpWalk& walk : walks) {
        if (walk.thread == thread && thread != kNullAddress) return text_of(walk.frames);
    }
    return {};
}

DumpTask DumpTasks::describe(const AsyncTask& task, std::span<const DumpWalk> walks) {
    DumpTask shown;
    const auto text = [&](StringId id) { return std::string(stacks_->string(id)); };
    shown.id = raw(task.address);
    shown.is_named = task.name.given != kNoString;
    shown.is_greenlet = task.is_greenlet;
    shown.coroutine = text(task.coroutine_name);
    shown.name = shown.is_named ? text(task.name.given) : task.is_greenlet ? shown.coroutine : fmt::format("Task-{}", task.name.number);
    shown.state = task.state;
    shown.has_begun = task.has_begun;
    for (const DumpWalk& walk : walks) {
        if (walk.thread == task.thread && task.thread != kNullAddress) shown.thread = walk.native_id;
    }
    if (task.state == TaskState::kWaiting) shown.waiting_on = text(task.waits_for_type);
    shown.frames = frames_of(task, walks);
    auto origin = task.is_greenlet ? read_spawning_stack(*memory_, *layout_, task.origin)
                                   : read_coroutine_origin(*memory_, *layout_, reader_->asyncio_layout().coroutine_origin, task.coroutine);
    for (OriginFrame& frame : origin) {
        shown.creation.push_back({FrameKind::kPython, std::move(frame.function), std::move(frame.file), frame.line});
    }
    return shown;
}

// Threads of pools whose work some task waits for, and those that wait for a task. The call of work stands near a thread's
// root, and what waits near its leaf.
void DumpTasks::find_threads(const ThreadList& threads, std::span<const DumpWalk> walks) {
    constexpr std::size_t kDeepestCall = 16;
    std::vector<RunningLoop> loops;
    for (const DumpWalk& thread : walks) {
        const auto state = std::find_if(threads.threads.begin(), threads.threads.end(),
                                        [&](const ThreadState& one) { return one.address == thread.thread; });
        Walk walk;
        walk.frames = thread.frames;
        walk.end = WalkEnd::kRoot;
        StackBuilder::Chain chain;
        const bool is_torn = builder_->build(walk, chain) == StackBuilder::Built::kTorn;
        if (is_torn || chain.steps.size() != thread.frames.size() || state == threads.threads.end()) continue;
        const auto function = [&](std::size_t step) {
            const Frame& frame = stacks_->frame(stacks_->node(chain.steps[step].stack).frame);
            return CalledFunction{stacks_->string(frame.name), stacks_->string(frame.file)};
        };
        const std::size_t count = chain.steps.size();
        if (const auto wait = find_future_wait(count, [&](std::size_t place) { return function(count - 1 - place); })) {
            const Address future = read_awaited_future(*memory_, *layout_, thread.frames[*wait]).value_or(kNullAddress);
            if (future != kNullAddress) waiters_.push_back({future, thread.native_id});
        }
        for (std::size_t i = 0; i < std::min(count, kDeepestCall); ++i) {
            const CalledFunction called = function(i);
            const auto kind = worker_kind(called.name, called.file);
            if (!kind) continue;
            const WorkerFrame worker{thread.thread, thread.frames[thread.frames.size() - 1 - i], *kind};
            if (const auto work = reader_->find_work(worker, state->interpreter, loops)) workers_.push_back({*work, thread.native_id});
            break;
        }
    }
}

void DumpTasks::look(const ThreadList& threads, bool is_stopped, std::span<const DumpWalk> walks, Dump& dump) {
    is_stopped_ = is_stopped;
    reader_->sweep(threads, is_stopped, sweep_);
    dump.torn_tasks = sweep_.torn;
    dump.broken_lists += sweep_.broken_lists;
    workers_.clear();
    waiters_.clear();
    if (is_stopped) find_threads(threads, walks);
    TaskGraph graph;
    graph.build(sweep_.tasks.size(), sweep_.edges, sweep_.order);
    // By number, then by name: about as they were made.
    std::vector<TaskIndex> sorted(sweep_.tasks.size());
    std::iota(sorted.begin(), sorted.end(), TaskIndex{0});
    const auto key = [&](TaskIndex index) {
        const AsyncTask& task = sweep_.tasks[index];
        return std::tuple(task.name.number, stacks_->string(task.name.given), raw(task.address));
    };
    std::sort(sorted.begin(), sorted.end(), [&](TaskIndex a, TaskIndex b) { return key(a) < key(b); });
    std::vector<std::size_t> place(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) place[sorted[i]] = i;

    // A greenlet is told as one that waits for others by those alone.
    std::vector<std::vector<TaskIndex>> joined(sweep_.tasks.size());
    for (const TaskEdge& edge : sweep_.edges) {
        if (edge.is_wait && sweep_.tasks[edge.awaiter].is_greenlet) joined[edge.awaiter].push_back(edge.task);
    }

    tsl::robin_map<std::uint64_t, std::size_t> place_of;  // by address
    for (std::size_t i = 0; i < sweep_.tasks.size(); ++i) place_of[raw(sweep_.tasks[i].address)] = place[i];

    dump.tasks.clear();
    std::vector<std::uint8_t> lacks_wrapper(sweep_.tasks.size(), 0);  // by place
    for (const TaskIndex index : sorted) {
        const AsyncTask& task = sweep_.tasks[index];
        DumpTask shown = describe(task, walks);
        lacks_wrapper[place[index]] = leave_out_wrapper(shown) ? 1 : 0;
        const auto awaited = is_task(task.waits_for_kind) ? place_of.find(raw(task.waits_for)) : place_of.end();
        if (awaited != place_of.end()) shown.waiting_on_task = awaited->second;
        if (joined[index].size() == 1) shown.waiting_on_task = place[joined[index].front()];
        if (joined[index].size() > 1) shown.waiting_on = fmt::format("{} greenlets", joined[index].size());
        if (task.is_greenlet && !graph.awaiters(index).empty()) shown.creation.clear();  // who spawned it stands above it
        for (const TaskEdge& edge : graph.awaiters(index)) {
            shown.awaiters.push_back({place[edge.awaiter], edge.source, edge.is_wait, edge.depth});
        }
        for (const Worker& worker : workers_) {
            if (worker.work.task == task.address && worker.work.through == task.waits_for) shown.workers.push_back(worker.native_id);
        }
        for (const Waiter& waiter : waiters_) {
            if (waiter.future == task.fills) shown.waiting_threads.push_back(waiter.native_id);
        }
        dump.tasks.push_back(std::move(shown));
    }
    for (DumpTask& task : dump.tasks) {
        for (DumpTask::Awaiter& awaiter : task.awaiters) {
            if (lacks_wrapper[awaiter.task] != 0 && awaiter.depth > 1) --awaiter.depth;
        }
    }
}

}  // namespace pyprof
