// SPDX-License-Identifier: Apache-2.0
//
// A small gevent that is damaged: the walk over all objects and a look at its greenlets end, and what they find holds
// together. Input: layout (1), then changes (support/damage.h).
#include "python/asyncio_tasks.h"
#include "python/gc_lists.h"
#include "python/gevent_loop.h"
#include "support/damage.h"
#include "support/fake_target.h"
#include "support/gevent_builder.h"

#include <algorithm>

using namespace pyprof;

namespace {

constexpr Address kBase{0x7f1000000000};
constexpr std::size_t kMostChanges = 256;
constexpr std::size_t kMostObjects = 1'000;

void check_sweep(const TaskSweep& sweep) {
    TaskGraph graph;
    graph.build(sweep.tasks.size(), sweep.edges, sweep.order);
    TaskGraph::Path path;
    for (TaskIndex task = 0; task < sweep.tasks.size(); ++task) {
        check(sweep.frames_of(sweep.tasks[task]).size() <= 1'024, "frames of a greenlet");
        graph.path_of(task, task, path);
        check(path.tasks.size() <= sweep.tasks.size(), "a path goes through a greenlet once");
    }
}

// A reader of its own, whose walk over all objects comes at once.
void look(test::FakeTarget& target, const Layout& layout, const ThreadList& threads, StackTable& stacks, TaskSweep& sweep) {
    AsyncioReader reader(target, layout, stacks);
    (void)reader.find(threads.interpreters);
    if (!reader.is_found()) return;
    (void)reader.find_loops(threads);
    reader.look(threads, sweep, {});
    check_sweep(sweep);
    if (!sweep.tasks.empty()) {
        (void)reader.read_path(sweep.tasks.back().address, threads.interpreters.front().address, sweep);
        check_sweep(sweep);
    }
    for (const bool is_stopped : {false, true}) {
        reader.sweep(threads, is_stopped, sweep);
        check_sweep(sweep);
    }
}

void look_beside(Memory& memory, const Layout& layout, const ThreadList& threads, const GeventModule& gevent, std::span<const Address> places) {
    GcLists lists(layout, memory);
    std::size_t seen = 0;
    (void)lists.walk(threads.interpreters.front(), kMostObjects, [&](Address, Address) { ++seen; });
    check(seen <= kMostObjects, "objects of a walk");
    ObjectKinds kinds(layout);
    GreenletReader greenlets(layout, kinds, memory);
    GeventGreenlet found;
    std::vector<Address> waiting;
    std::vector<DueGreenlet> due;
    for (const Address object : places) {
        (void)greenlets.read(memory, object);
        (void)read_gevent_greenlet(memory, layout, kinds, gevent, object, found);
        check(found.joiners.size() <= 4'096, "joiners of a greenlet");
        find_waiting(memory, layout, kinds, gevent, object, waiting);
        check(read_spawning_stack(memory, layout, object).size() <= 64, "frames of a spawning stack");
        (void)run_name_of(memory, layout, kinds, object);
        (void)given_name_of(memory, layout, kinds, object);
        (void)thread_of_hub(memory, layout, object);
        due.clear();
        find_due(memory, layout, kinds, gevent, object, due);
        const Address queue = find_callback_queue(memory, layout, kinds, object);
        if (queue != kNullAddress) find_due(memory, layout, kinds, gevent, queue, due);
        check(due.size() <= 2 * (1U << 16), "callbacks of two queues");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const Layout layout = *layout_of(3, static_cast<int>(8 + data[0] % 5));
    test::FakeTarget target("/bin/python");
    test::ProcessBuilder builder(target.fake(), layout, kBase);
    test::GeventBuilder gevent(builder);
    const Address parent = gevent.greenlet("parent");
    const Address child = gevent.greenlet("child");
    gevent.set_links(child, {gevent.switch_of(parent), gevent.switch_of_waiter(parent)});
    gevent.set_spawner(parent, gevent.main);
    const Address event = gevent.event({gevent.switch_of(child)});
    const auto loop = data[0] / 5 % 2 == 0 ? test::GeventBuilder::LoopOf::kLibev : test::GeventBuilder::LoopOf::kLibuv;
    const std::vector<Address> callbacks = gevent.set_callbacks(loop, {gevent.switch_of_waiter(parent), gevent.switch_of(child)});
    const std::uint64_t words = distance(kBase, builder.allocate(8)) / 8;
    // The states of an interpreter and a runtime are large and have few fields that matter here.
    const Address interpreter = builder.interpreter();
    const Address runtime = builder.allocate(4096);
    gevent.publish(interpreter, runtime, {gevent.main, gevent.hub, parent, child, event});
    test::ProcessBuilder::ThreadSpec spec;
    spec.interpreter = interpreter;
    spec.thread_id = test::GeventBuilder::kPthread;

    ThreadList threads;
    threads.interpreters.push_back({interpreter, 0, runtime});
    threads.threads.push_back({builder.thread(spec), interpreter, test::GeventBuilder::kPthread, 100, true});
    StackTable stacks;
    TaskSweep sweep;
    look(target, layout, threads, stacks, sweep);
    check(sweep.tasks.size() == 3 && sweep.edges.size() >= 2, "an undamaged gevent is read");
    check(std::count_if(sweep.tasks.begin(), sweep.tasks.end(), [](const AsyncTask& task) { return task.state == TaskState::kReady; }) == 2,
          "what an undamaged loop is to call is read");
    for (std::size_t i = 0; 1 + (i + 1) * test::kChangeBytes <= size && i < kMostChanges; ++i) {
        test::damage(target.fake(), kBase, data + 1 + i * test::kChangeBytes, words);
        if (i % 4 == 3) look(target, layout, threads, stacks, sweep);
    }
    look(target, layout, threads, stacks, sweep);
    const Address places[] = {gevent.main, gevent.hub, parent, child, event, callbacks.front()};
    look_beside(target.memory(), layout, threads, {gevent.type(), gevent.hub_type()}, places);
    return 0;
}
