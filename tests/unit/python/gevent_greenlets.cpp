// SPDX-License-Identifier: Apache-2.0
//
// Greenlets of a small gevent on every layout with a GIL: found among all objects, as tasks with edges; then objects that lie.
#include "python/gevent_greenlets.h"

#include "python/asyncio_tasks.h"
#include "python/gc_lists.h"
#include "python/gevent_loop.h"
#include "support/fake_target.h"
#include "support/gevent_builder.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// A parent that joins a child; the parent was spawned by the main greenlet, a third one by the child.
struct World {
    explicit World(const Layout& layout) : target("/bin/python"), builder(target.fake(), layout), gevent(builder) {
        parent = gevent.greenlet("parent");
        child = gevent.greenlet("child");
        third = gevent.greenlet("third");
        gevent.set_links(child, {gevent.switch_of(parent)});
        gevent.set_spawner(parent, gevent.main);
        gevent.set_spawner(child, gevent.main);
        gevent.set_spawner(third, child);
        event = gevent.event({gevent.switch_of(third)});
        interpreter = builder.interpreter();
        runtime = builder.allocate(4096);
        gevent.publish(interpreter, runtime, objects());
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = interpreter;
        spec.thread_id = GeventBuilder::kPthread;
        const Address thread = builder.thread(spec);
        threads.interpreters.push_back({interpreter, 0, runtime});
        threads.threads.push_back({thread, interpreter, GeventBuilder::kPthread, 100, true});
    }
    [[nodiscard]] std::vector<Address> objects() const { return {gevent.main, gevent.hub, parent, child, third, event}; }

    FakeTarget target;
    ProcessBuilder builder;
    GeventBuilder gevent;
    Address parent{}, child{}, third{}, event{}, interpreter{}, runtime{};
    ThreadList threads;
    StackTable stacks;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        if (known.layout.free_threaded) continue;
        INFO("layout of " << known.name);
        World world(known.layout);
        test(world);
    }
}

const AsyncTask* find(const TaskSweep& sweep, Address address) {
    for (const AsyncTask& task : sweep.tasks) {
        if (task.address == address) return &task;
    }
    return nullptr;
}

std::vector<Address> walked(World& world, std::size_t most, bool& is_whole) {
    std::vector<Address> found;
    GcLists lists(world.builder.layout(), world.target.memory());
    is_whole = lists.walk(world.threads.interpreters.front(), most, [&](Address object, Address) { found.push_back(object); });
    return found;
}

}  // namespace

TEST_CASE("gc lists: every object, the newest first, and an end where neighbours disagree") {
    for_each_layout([](World& world) {
        bool is_whole = false;
        std::vector<Address> expected = world.objects();
        std::reverse(expected.begin(), expected.end());
        CHECK(walked(world, 100, is_whole) == expected);
        CHECK(is_whole);
        CHECK(walked(world, 2, is_whole).size() == 2);
        CHECK_FALSE(is_whole);
        // A circle that leaves out the head.
        world.target.fake().put(world.child - 16 + 8, raw(world.third - 16));
        CHECK(walked(world, 100, is_whole).size() <= expected.size());
        CHECK_FALSE(is_whole);
        world.target.fake().put(world.child - 16 + 8, std::uint64_t{0x7e0000000000});
        CHECK(walked(world, 100, is_whole).size() == 3);
        CHECK_FALSE(is_whole);
    });
}

TEST_CASE("gevent: greenlets below the one that joins them, else below the one that spawned them") {
    for_each_layout([](World& world) {
        AsyncioReader reader(world.target, world.builder.layout(), world.stacks);
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, true, sweep);
        CHECK(sweep.torn == 0);
        REQUIRE(sweep.tasks.size() == 4);
        for (const Address one : {world.gevent.main, world.parent, world.child, world.third}) {
            const AsyncTask* task = find(sweep, one);
            REQUIRE(task != nullptr);
            CHECK(task->is_greenlet);
            CHECK(task->is_main_greenlet == (one == world.gevent.main));
            CHECK(task->thread == world.threads.threads.front().address);
            CHECK(task->state == TaskState::kWaiting);
            CHECK(task->frame_count == 1);
        }
        CHECK(world.stacks.string(find(sweep, world.child)->coroutine_name) == "child");
        CHECK(world.stacks.string(find(sweep, world.third)->waits_for_type) == "Event");
        REQUIRE(sweep.edges.size() == 3);
        for (const TaskEdge& edge : sweep.edges) {
            const Address task = sweep.tasks[edge.task].address, above = sweep.tasks[edge.awaiter].address;
            CHECK(above == (task == world.child ? world.parent : task == world.parent ? world.gevent.main : world.child));
            CHECK(edge.source == (task == world.child ? EdgeSource::kJoin : EdgeSource::kRecorded));
            CHECK(edge.is_wait == (task == world.child));
        }
    });
}

TEST_CASE("gevent: a greenlet that runs, has ended or was never started") {
    for_each_layout([](World& world) {
        world.gevent.set_words(world.parent, 1, 4096, kNullAddress, world.gevent.hub);
        world.gevent.set_running(world.parent);
        world.gevent.set_words(world.child, 0, 4096, kNullAddress, world.gevent.hub);
        world.gevent.set_words(world.third, 0, 0, kNullAddress, world.gevent.hub);
        AsyncioReader reader(world.target, world.builder.layout(), world.stacks);
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, true, sweep);
        CHECK(find(sweep, world.child) == nullptr);
        CHECK(find(sweep, world.third) == nullptr);
        const AsyncTask* parent = find(sweep, world.parent);
        REQUIRE(parent != nullptr);
        CHECK(parent->state == TaskState::kRunning);
        CHECK(parent->frame_count == 0);
        // Another one runs: it waits in code that has no frames.
        world.gevent.set_running(world.gevent.hub);
        reader.sweep(world.threads, true, sweep);
        REQUIRE(find(sweep, world.parent) != nullptr);
        CHECK(find(sweep, world.parent)->state == TaskState::kWaiting);
        // Nobody knows who runs: nothing is said of it.
        world.gevent.set_running(Address{0x7e0000000000});
        reader.sweep(world.threads, true, sweep);
        CHECK(find(sweep, world.parent) == nullptr);
        CHECK(sweep.torn == 1);
    });
}

TEST_CASE("gevent: links to whoever waits, and to nobody else") {
    for_each_layout([](World& world) {
        const Layout& layout = world.builder.layout();
        ObjectKinds kinds(layout);
        const GeventModule module{world.gevent.type(), world.gevent.hub_type()};
        GeventGreenlet found;
        const auto read = [&] { return read_gevent_greenlet(world.target.memory(), layout, kinds, module, world.child, found); };
        world.gevent.set_links(world.child, {world.gevent.switch_of(world.parent, "throw"), world.gevent.switch_of_waiter(world.third),
                                             world.builder.none(), kNullAddress, Address{0x7e0000000000}});
        REQUIRE(read());
        REQUIRE(found.joiners.size() == 1);
        CHECK(found.joiners.front().greenlet == world.third);
        CHECK(found.joiners.front().by_waiter);
        CHECK(found.spawner == world.gevent.main);
        world.gevent.set_spawner(world.child, world.gevent.hub);
        REQUIRE(read());
        CHECK(found.spawner == kNullAddress);
        // Members that are something else: another gevent, or none.
        for (const std::uint64_t offset : {56, 64, 96}) {
            const auto kept = read_pointer(world.target.memory(), world.child + offset);
            world.target.fake().put(world.child + offset, raw(world.parent));
            CHECK_FALSE(read());
            world.target.fake().put(world.child + offset, raw(*kept));
        }
        CHECK(read());
    });
}

TEST_CASE("gevent: a greenlet that the loop is to switch to is ready") {
    using LoopOf = GeventBuilder::LoopOf;
    for (const LoopOf kind : {LoopOf::kLibev, LoopOf::kLibuv}) {
        for_each_layout([&](World& world) {
            const Address method = world.gevent.switch_of(world.third, "throw");  // that of another kind
            const auto callbacks = world.gevent.set_callbacks(
                kind, {method, world.gevent.switch_of_waiter(world.parent), world.builder.none(), world.gevent.switch_of(world.child)});
            AsyncioReader reader(world.target, world.builder.layout(), world.stacks);
            REQUIRE(reader.find(world.threads.interpreters));
            (void)reader.find_loops(world.threads);
            TaskSweep sweep;
            const auto check = [&](TaskState parent, TaskState child) {
                for (const bool is_look : {true, false}) {
                    if (is_look) reader.look(world.threads, sweep, {});
                    if (!is_look) reader.sweep(world.threads, true, sweep);
                    CHECK(sweep.torn == 0);
                    for (const auto& [greenlet, state] : {std::pair{world.parent, parent}, std::pair{world.child, child},
                                                          std::pair{world.third, TaskState::kWaiting},
                                                          std::pair{world.gevent.main, TaskState::kWaiting}}) {
                        REQUIRE(find(sweep, greenlet) != nullptr);
                        CHECK(find(sweep, greenlet)->state == state);
                    }
                }
            };
            check(TaskState::kReady, TaskState::kReady);
            world.gevent.call(kind, callbacks[1]);
            check(TaskState::kWaiting, TaskState::kReady);
            world.gevent.call(kind, callbacks[3]);
            check(TaskState::kWaiting, TaskState::kWaiting);
        });
    }
}

TEST_CASE("gevent: what is to be called at once, of a loop that lies") {
    using LoopOf = GeventBuilder::LoopOf;
    for_each_layout([](World& world) {
        const Layout& layout = world.builder.layout();
        Memory& memory = world.target.memory();
        ObjectKinds kinds(layout);
        const GeventModule module{world.gevent.type(), world.gevent.hub_type()};
        const auto due = [&] {
            std::vector<DueGreenlet> found;
            const Address queue = find_callback_queue(memory, layout, kinds, world.gevent.hub);
            if (queue != kNullAddress) find_due(memory, layout, kinds, module, queue, found);
            return found;
        };
        CHECK(due().empty());  // no loop
        world.gevent.set_callbacks(LoopOf::kLibev, {});
        CHECK(find_callback_queue(memory, layout, kinds, world.gevent.hub) != kNullAddress);
        CHECK(due().empty());
        const auto callbacks = world.gevent.set_callbacks(LoopOf::kLibev, {world.gevent.switch_of(world.parent), world.gevent.switch_of(world.child)});
        REQUIRE(due().size() == 2);
        CHECK(due()[0].greenlet == world.parent);
        CHECK(due()[0].callback == callbacks[0]);
        CHECK(due()[1].greenlet == world.child);
        // A circle ends, and so does what leads to nowhere.
        const Address next = callbacks[1] + layout.object.header_size + 16;
        world.target.fake().put(next, raw(callbacks[0]));
        CHECK(due().size() >= 2);
        CHECK(due().size() <= 8);
        world.target.fake().put(next, std::uint64_t{0x7e0000000000});
        CHECK(due().size() == 2);
        CHECK(greenlet_of_callback(memory, layout, kinds, module, world.parent) == kNullAddress);
        CHECK(greenlet_of_callback(memory, layout, kinds, module, Address{0x7e0000000000}) == kNullAddress);
        // A queue that is none.
        std::vector<DueGreenlet> found;
        find_due(memory, layout, kinds, module, world.parent, found);
        find_due(memory, layout, kinds, module, Address{0x7e0000000000}, found);
        CHECK(found.empty());
    });
}

TEST_CASE("gevent: a callback that is called, or another one, before its greenlet is read says nothing of it") {
    using LoopOf = GeventBuilder::LoopOf;
    for (const auto& [kind, is_another] : {std::pair{LoopOf::kLibev, false}, std::pair{LoopOf::kLibev, true},
                                           std::pair{LoopOf::kLibuv, false}, std::pair{LoopOf::kLibuv, true}}) {
        for_each_layout([&, kind = kind, is_another = is_another](World& world) {
            const Address function = is_another ? world.gevent.switch_of(world.child) : world.builder.none();
            const auto callbacks = world.gevent.set_callbacks(kind, {world.gevent.switch_of(world.parent)});
            AsyncioReader reader(world.target, world.builder.layout(), world.stacks);
            REQUIRE(reader.find(world.threads.interpreters));
            (void)reader.find_loops(world.threads);
            // Its page is copied once for the queue, and once with the greenlet.
            int copies = 0;
            world.target.fake().before_range = [&](FakeMemory&, const ReadRange& range) {
                const Address end = range.from + range.to.size();
                if (!is_within(callbacks.front(), range.from, end) || ++copies != 2) return;
                world.gevent.set_function(kind, callbacks.front(), function);
            };
            TaskSweep sweep;
            reader.look(world.threads, sweep, {});
            CHECK(copies >= 2);
            REQUIRE(find(sweep, world.parent) != nullptr);
            CHECK(find(sweep, world.parent)->state == TaskState::kWaiting);
        });
    }
}
