// SPDX-License-Identifier: Apache-2.0
//
// A small asyncio that is damaged: a look at its tasks ends, and what it finds holds together. Input: layout
// (1), then changes (support/damage.h).
#include "fuzz_layouts.h"
#include "python/asyncio_tasks.h"
#include "python/coroutine_origin.h"
#include "python/greenlets.h"
#include "python/task_holders.h"
#include "python/thread_waits.h"
#include "python/trio_tasks.h"
#include "support/asyncio_builder.h"
#include "support/damage.h"
#include "support/fake_target.h"
#include "support/frame_holding.h"

#include <cstring>

using namespace pyprof;

namespace {

constexpr Address kBase{0x7f1000000000};
constexpr std::size_t kMostChanges = 256;

void check_sweep(const TaskSweep& sweep) {
    TaskGraph graph;
    graph.build(sweep.tasks.size(), sweep.edges, sweep.order);
    TaskGraph::Path path;
    for (TaskIndex task = 0; task < sweep.tasks.size(); ++task) {
        check(sweep.frames_of(sweep.tasks[task]).size() <= CoroutineReader::kMostFrames, "frames of a task");
        graph.path_of(task, task, path);
        check(path.tasks.size() <= sweep.tasks.size(), "a path goes through a task once");
    }
}

void look(AsyncioReader& reader, const ThreadList& threads, bool is_stopped, TaskSweep& sweep) {
    (void)reader.find_loops(threads);
    reader.look(threads, sweep, {});
    check_sweep(sweep);
    for (const TaskEdge& edge : sweep.edges) {
        check(sweep.tasks[edge.task].moment == sweep.tasks[edge.awaiter].moment, "an edge is of one moment");
    }
    if (!sweep.tasks.empty()) {
        const Address task = sweep.tasks.back().address;
        const auto read = reader.read_path(task, threads.interpreters.front().address, sweep);
        check(!read || sweep.tasks[*read].address == task, "the task that was asked for");
        check_sweep(sweep);
    }
    reader.sweep(threads, is_stopped, sweep);
    check_sweep(sweep);
}

// What is read beside the tasks, at any places: whatever stands there, it ends.
void look_beside(Memory& memory, const Layout& layout, const AsyncioLayout& asyncio, std::span<const Address> places) {
    ObjectKinds kinds(layout);
    GreenletReader greenlets(layout, kinds, memory);
    AwaiterFinder awaiters(layout, asyncio, kinds);
    WorkFinder work(layout, kinds, awaiters);
    FoundWork found;
    std::vector<RawFrame> frames;
    std::vector<Address> locals;
    for (const Address object : places) {
        (void)greenlets.read_frames(memory, object, frames);
        check(frames.size() <= 1'024, "frames of a greenlet");
        (void)greenlets.find_callers(memory, object, frames);
        check(frames.size() <= 1'024, "frames of a main greenlet");
        for (const Address code : places) {
            RawFrame holder;
            holder.address = object;
            holder.code = code;
            read_locals(memory, layout, holder, locals);
            check(locals.size() <= kMostLocals, "locals of a frame");
            (void)read_awaited_future(memory, layout, holder);
            greenlets.find_between(memory, holder, object, frames);
            greenlets.find_between_frames(memory, holder, object, frames);
            work.find(memory, {object, holder, WorkerFrame::Kind::kThreadPool}, found);
            work.find(memory, {object, holder, WorkerFrame::Kind::kAnyio}, found);
        }
    }
}

// Who holds what: every place as a task, and as a frame with code.
void look_for_holders(Memory& memory, const Layout& layout, std::span<const Address> places) {
    ObjectKinds kinds(layout);
    TaskHolders holders(layout, kinds);
    std::vector<RawFrame> frames;
    for (const Address object : places) {
        for (const Address code : places) {
            frames.emplace_back();
            frames.back().address = object;
            frames.back().code = code;
        }
    }
    std::vector<TaskHolders::Entry> entries;
    for (const Address task : places) entries.push_back({task, frames, 0, true, true});
    std::vector<TaskEdge> edges;
    holders.find(memory, entries, edges);
    for (const TaskEdge& edge : edges) {
        check(edge.task < places.size() && edge.awaiter < places.size() && edge.depth <= frames.size(), "an edge between tasks");
    }
}

// Tasks of trio: every place as a task, a runner and a thread.
void look_for_trio(Memory& memory, const Layout& layout, std::span<const Address> places) {
    TrioModule trio;
    const auto header = static_cast<Offset>(layout.object.header_size);
    trio.task = {header, header + 8, header + 16, header + 24, header + 32, header + 40, header + 48};
    trio.runner_tasks = header;
    trio.runner_init_task = header + 8;
    TrioTask task;
    std::vector<Address> listed;
    for (const Address object : places) {
        trio.runner_type = trio.task_type = read_pointer(memory, object + at(layout.object.type)).value_or(kNullAddress);
        (void)read_trio_task(memory, layout, trio, object, task);
        (void)list_trio_tasks(memory, layout, trio, object, 64, listed);
        check(listed.size() <= 64 * places.size(), "tasks of a runner");
        Address runner{};
        (void)find_trio_runner(memory, layout, trio, object, runner);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const auto& layouts = test::fuzz_layouts();
    const Layout& layout = layouts[data[0] % layouts.size()].layout;
    test::FakeTarget target("/bin/python");
    test::ProcessBuilder builder(target.fake(), layout, kBase);
    test::AsyncioBuilder asyncio(builder);
    const Address future = asyncio.future();
    const Address leaf = asyncio.coroutine("leaf", asyncio.future_iter(future));
    const Address child = asyncio.task({"child", asyncio.coroutine("outer", leaf), future});
    const Address parent = asyncio.task({"Task-7", asyncio.coroutine("root", asyncio.future_iter(child)), child});
    asyncio.add_wakeup(future, child);
    asyncio.add_wakeup(child, parent);
    // What the parent's end fills, and with that the future of another loop.
    const Address callbacks = test::list_of(builder, {asyncio.chain_to(asyncio.future())});
    const Address given = builder.instance("Future", {{"_done_callbacks", callbacks}});
    asyncio.add_chain(parent, given);
    const Address loop = builder.object(64);
    for (const Address task : {child, parent}) builder.put_field(task, asyncio.layout().future.loop, raw(loop));
    const Address end = builder.allocate(8);
    const std::uint64_t words = distance(kBase, end) / 8;
    // An interpreter's state is large and has one field that matters here.
    const Address interpreter = builder.interpreter();
    test::ProcessBuilder::ThreadSpec of_loop;
    of_loop.interpreter = interpreter;
    const Address thread = builder.thread(of_loop);
    asyncio.publish_places(target);
    const bool has_list = has(asyncio.layout().task.node);
    if (has_list) asyncio.link(thread, {parent, child});
    asyncio.publish(interpreter, has_list ? std::vector<Address>{} : std::vector<Address>{parent, child});
    asyncio.set_loop(thread, loop, test::FakeTarget::kPid);
    asyncio.set_count(thread, 1);

    ThreadList threads;
    threads.interpreters.push_back({interpreter, 0});
    threads.threads.push_back({thread, interpreter, 1, test::FakeTarget::kPid, true});
    StackTable stacks;
    AsyncioReader reader(target, layout, stacks);
    reader.want_holders(true);
    check(reader.find(threads.interpreters), "an undamaged asyncio is found");
    TaskSweep sweep;
    look(reader, threads, false, sweep);
    check(sweep.tasks.size() == 2 && sweep.edges.size() == 1, "an undamaged asyncio is read");
    for (const AsyncTask& task : sweep.tasks) check((task.address == parent) == (task.fills == given), "what its end fills is told");
    for (std::size_t i = 0; 1 + (i + 1) * 5 <= size && i < kMostChanges; ++i) {
        test::damage(target.fake(), kBase, data + 1 + i * 5, words);
        if (i % 4 == 3) look(reader, threads, i % 8 == 3, sweep);
    }
    look(reader, threads, false, sweep);
    look(reader, threads, true, sweep);
    for (const Address object : {future, leaf, child, parent}) {
        const auto origin = read_coroutine_origin(target.memory(), layout, asyncio.layout().coroutine_origin, object);
        check(origin.size() <= 256, "frames of an origin");
    }
    const auto code = read_pointer(target.memory(), sweep.frames.empty() ? leaf : sweep.frames.front().address);
    const Address places[] = {future, leaf, child, parent, given, code.value_or(kNullAddress),
                              sweep.frames.empty() ? leaf : sweep.frames.front().code};
    look_beside(target.memory(), layout, asyncio.layout(), places);
    look_for_holders(target.memory(), layout, places);
    look_for_trio(target.memory(), layout, places);
    AsyncioReader fresh(target, layout, stacks);
    if (fresh.find(threads.interpreters)) look(fresh, threads, true, sweep);
    return 0;
}
