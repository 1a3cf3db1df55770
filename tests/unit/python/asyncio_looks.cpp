// SPDX-License-Identifier: Apache-2.0
//
// Looks at tasks while their loop goes on calling: a fake loop whose counter moves while its pages are copied.
// Layouts of 3.13 and later, whose thread state names its loop.
#include "python/asyncio_tasks.h"

#include "support/asyncio_builder.h"
#include "support/fake_target.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr Address kThread{0x7e0000000000};
constexpr Address kLoop{0x7e1000000000};

// "parent" awaits the task "child", whose coroutines outer -> inner await a future; a loop of one thread owns both.
struct World {
    explicit World(const Layout& layout) : target("/bin/python"), builder(target.fake(), layout), asyncio(builder) {
        interpreter = builder.interpreter();
        future = asyncio.future();
        inner = asyncio.coroutine("inner", asyncio.future_iter(future));
        outer = asyncio.coroutine("outer", inner);
        child = asyncio.task({"Task-8", outer, future});
        parent = asyncio.task({"Task-7", asyncio.coroutine("root", asyncio.future_iter(child)), child});
        asyncio.add_wakeup(future, child);
        asyncio.add_wakeup(child, parent);
        asyncio.publish(interpreter, {parent, child});
        asyncio.publish_places(target);
        for (const Address task : {parent, child}) builder.put_field(task, asyncio.layout().future.loop, raw(kLoop));
        memory().map(kThread, 1U << 16);
        memory().put(kThread + static_cast<std::uint64_t>(asyncio.layout().thread.running_loop), kLoop);
        step();
        threads.interpreters.push_back({interpreter, 0});
        threads.threads.push_back({kThread, interpreter, 1, 1, true});
    }

    FakeMemory& memory() { return target.fake(); }
    // The loop calls one callback.
    void step() {
        count += 2;
        memory().put(kThread + static_cast<std::uint64_t>(asyncio.layout().thread.context_version), count);
    }

    FakeTarget target;
    ProcessBuilder builder;
    AsyncioBuilder asyncio;
    Address interpreter{}, future{}, inner{}, outer{}, child{}, parent{};
    std::uint64_t count = 1;
    ThreadList threads;
    StackTable stacks;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        if (known.layout.version.minor < 13) continue;
        INFO("layout of " << known.name);
        World world(known.layout);
        AsyncioReader reader(world.target, known.layout, world.stacks);
        REQUIRE(reader.find(world.threads.interpreters));
        test(world, reader);
    }
}

void check_path(const World& world, const TaskSweep& sweep) {
    std::size_t listed = 0;
    for (const AsyncTask& task : sweep.tasks) {
        if (!task.is_listed) continue;
        ++listed;
        CHECK(task.thread == kThread);
        CHECK(task.frame_count == (task.address == world.child ? 2U : 1U));
    }
    CHECK(listed == 2);
    REQUIRE(!sweep.edges.empty());
    for (const TaskEdge& edge : sweep.edges) {
        CHECK(sweep.tasks[edge.task].address == world.child);
        CHECK(sweep.tasks[edge.awaiter].address == world.parent);
        CHECK(sweep.tasks[edge.task].moment == sweep.tasks[edge.awaiter].moment);
        CHECK(edge.is_wait);
    }
}

}  // namespace

TEST_CASE("asyncio looks: while a loop calls nothing, one read shows all of its tasks") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        for (int i = 0; i < 3; ++i) reader.look(world.threads, sweep, {});
        world.memory().reset_counts();
        reader.look(world.threads, sweep, {});
        CHECK(world.memory().reads() == 1);
        CHECK(sweep.torn == 0);
        check_path(world, sweep);
        REQUIRE(sweep.loops.size() == 1);
        CHECK(sweep.loops[0].is_still);
        CHECK(sweep.loops[0].context_version == world.count);
    });
}

TEST_CASE("asyncio looks: what moved meanwhile is read again in parts") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        for (int i = 0; i < 3; ++i) reader.look(world.threads, sweep, {});
        // The inner coroutine's place is another one's for a while, and its own again before it could be noticed.
        const auto frame = static_cast<std::uint64_t>(world.builder.layout().generator.frame + world.builder.layout().frame.code);
        const auto own = read_pointer(world.memory(), world.inner + frame);
        const auto other = read_pointer(world.memory(), world.outer + frame);
        std::size_t ranges = 0;
        world.memory().reset_counts();
        world.memory().before_range = [&](FakeMemory& memory, const ReadRange&) {
            ++ranges;
            if (ranges == 2) memory.put(world.inner + frame, *other);
            if (ranges == 3) memory.put(world.inner + frame, *own);
            if (ranges == 2 || ranges == 3) world.step();
        };
        reader.look(world.threads, sweep, {});
        CHECK(sweep.torn == 0);
        CHECK(world.memory().reads() > 1);
        check_path(world, sweep);
        for (const AsyncTask& task : sweep.tasks) {
            if (task.address == world.child) CHECK(sweep.frames_of(task).front().code == *own);
        }
    });
}

TEST_CASE("asyncio looks: a loop that never stands still is held for one copy") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        int holds = 0;
        bool is_held = false;
        const AsyncioReader::Hold hold = [&](Address thread, const std::function<void()>& copy) {
            CHECK(thread == kThread);
            ++holds;
            is_held = true;
            copy();
            is_held = false;
            return true;
        };
        for (int i = 0; i < 3; ++i) reader.look(world.threads, sweep, hold);
        CHECK(holds == 0);  // it stood still by itself
        world.memory().before_range = [&](FakeMemory&, const ReadRange&) {
            if (!is_held) world.step();
        };
        reader.look(world.threads, sweep, hold);
        CHECK(holds == 1);
        CHECK(sweep.was_held);
        CHECK(sweep.torn == 0);
        check_path(world, sweep);
        // Known to be too fast: one copy that shows that it moved, and one while it is held.
        world.memory().reset_counts();
        reader.look(world.threads, sweep, hold);
        CHECK(holds == 2);
        CHECK(world.memory().reads() == 2);
        check_path(world, sweep);
        // It is refused: nothing is shown, and nothing was tried for long.
        world.memory().reset_counts();
        reader.look(world.threads, sweep, [](Address, const std::function<void()>&) { return false; });
        CHECK(world.memory().reads() == 1);
        CHECK(sweep.tasks.empty());
        CHECK(sweep.torn == 2);
    });
}

TEST_CASE("asyncio looks: of a loop that never stands still no task is shown") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        for (int i = 0; i < 3; ++i) reader.look(world.threads, sweep, {});
        world.memory().before_range = [&](FakeMemory&, const ReadRange&) { world.step(); };
        reader.look(world.threads, sweep, {});
        CHECK(sweep.tasks.empty());
        CHECK(sweep.torn == 2);
        CHECK_FALSE(reader.read_path(world.child, world.interpreter, sweep));
    });
}

TEST_CASE("asyncio looks: one task with those above it is two reads, then one") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        REQUIRE(reader.find_loops(world.threads).size() == 1);
        REQUIRE(reader.read_path(world.child, world.interpreter, sweep));
        world.memory().reset_counts();
        const auto child = reader.read_path(world.child, world.interpreter, sweep);
        CHECK(world.memory().reads() == 1);
        REQUIRE(child);
        CHECK(sweep.tasks.size() == 2);
        CHECK(sweep.tasks[*child].address == world.child);
        REQUIRE(sweep.edges.size() == 1);
        CHECK(sweep.edges[0].task == *child);
        CHECK(sweep.loops[0].context_version == world.count);

        world.builder.put_field(world.child, world.asyncio.layout().future.state, 2, 4);
        CHECK_FALSE(reader.read_path(world.child, world.interpreter, sweep));
        CHECK(sweep.tasks.empty());
        CHECK_FALSE(reader.read_path(Address{0x10}, world.interpreter, sweep));
        CHECK_FALSE(reader.read_path(world.inner, world.interpreter, sweep));  // no task
    });
}

TEST_CASE("asyncio looks: a task whose awaiter is of another moment is not shown below it") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        TaskSweep sweep;
        for (int i = 0; i < 3; ++i) reader.look(world.threads, sweep, {});
        // The parent has gone on to wait for the future itself: the child's callback is of the past.
        world.builder.put_field(world.parent, world.asyncio.layout().task.fut_waiter, raw(world.future));
        reader.look(world.threads, sweep, {});
        CHECK(sweep.edges.empty());
        // What it waits for and what its coroutine stands at contradict each other.
        CHECK(sweep.torn >= 1);
        CHECK(std::none_of(sweep.tasks.begin(), sweep.tasks.end(),
                           [&](const AsyncTask& task) { return task.address == world.parent; }));
    });
}
