// SPDX-License-Identifier: Apache-2.0
//
// Tasks out of a fake interpreter of each layout.
#include "python/asyncio_tasks.h"

#include "support/asyncio_builder.h"
#include "support/fake_target.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// "parent" awaits the task "child", whose coroutines outer -> inner await a future.
struct World {
    explicit World(const Layout& layout) : target("/bin/python"), builder(target.fake(), layout), asyncio(builder) {
        interpreter = builder.interpreter();
        future = asyncio.future();
        inner = asyncio.coroutine("inner", asyncio.future_iter(future));
        child = asyncio.task({"child", asyncio.coroutine("outer", inner), future});
        parent = asyncio.task({"Task-7", asyncio.coroutine("root", asyncio.future_iter(child)), child});
        asyncio.add_wakeup(future, child);
        asyncio.add_wakeup(child, parent);
        asyncio.publish(interpreter, {parent, child});
        asyncio.publish_places(target);
        threads.interpreters.push_back({interpreter, 0});
    }

    FakeTarget target;
    ProcessBuilder builder;
    AsyncioBuilder asyncio;
    Address interpreter{}, future{}, inner{}, child{}, parent{};
    ThreadList threads;
    StackTable stacks;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        World world(known.layout);
        AsyncioReader reader(world.target, known.layout, world.stacks);
        test(world, reader);
    }
}

const AsyncTask* find(const TaskSweep& sweep, Address address) {
    for (const AsyncTask& task : sweep.tasks) {
        if (task.address == address) return &task;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("asyncio: tasks with their chains, and the edge between them") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, false, sweep);
        REQUIRE(sweep.tasks.size() == 2);
        CHECK(sweep.torn == 0);
        CHECK(sweep.broken_lists == 0);
        const AsyncTask* child = find(sweep, world.child);
        const AsyncTask* parent = find(sweep, world.parent);
        REQUIRE(child != nullptr);
        REQUIRE(parent != nullptr);
        CHECK(world.stacks.string(child->name.given) == "child");
        CHECK(parent->name.given == kNoString);
        CHECK(parent->name.number == 7);
        CHECK(world.stacks.string(child->coroutine_name) == "outer");
        CHECK(child->frame_count == 2);  // the leaf first
        CHECK(child->waits_for == world.future);
        CHECK(child->awaited == world.future);
        CHECK(child->state == TaskState::kWaiting);
        CHECK(world.stacks.string(parent->waits_for_type) == "Task");
        REQUIRE(sweep.edges.size() == 1);
        CHECK(&sweep.tasks[sweep.edges[0].task] == child);
        CHECK(&sweep.tasks[sweep.edges[0].awaiter] == parent);
        CHECK(sweep.edges[0].is_wait);
    });
}

TEST_CASE("asyncio: once warm a look is one read") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        for (int i = 0; i < 2; ++i) reader.sweep(world.threads, false, sweep);
        world.target.fake().reset_counts();
        reader.sweep(world.threads, false, sweep);
        CHECK(sweep.tasks.size() == 2);
        CHECK(world.target.fake().reads() == 1);
    });
}

TEST_CASE("asyncio: a finished task is left out, a ready one is told from a waiting one") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        REQUIRE(reader.find(world.threads.interpreters));
        const AsyncioLayout& layout = world.asyncio.layout();
        world.builder.put_field(world.future, layout.future.state, 2, 4);
        TaskSweep sweep;
        reader.sweep(world.threads, false, sweep);
        REQUIRE(find(sweep, world.child) != nullptr);
        CHECK(find(sweep, world.child)->state == TaskState::kReady);
        CHECK(find(sweep, world.parent)->state == TaskState::kWaiting);
        world.builder.put_field(world.child, layout.future.state, 2, 4);
        reader.sweep(world.threads, false, sweep);
        CHECK(find(sweep, world.child) == nullptr);
        CHECK(find(sweep, world.parent)->state == TaskState::kReady);
        CHECK(sweep.edges.empty());
    });
}

TEST_CASE("asyncio: a task that waits for a library's own kind of future is not ready") {
    for_each_layout([](World& world, AsyncioReader&) {
        const Address own = world.builder.instance("Future", {{"_asyncio_future_blocking", world.builder.none()}});
        const Address task = world.asyncio.task({"task", world.asyncio.coroutine("waits", own), own});
        world.asyncio.publish(world.interpreter, {task});
        AsyncioReader reader(world.target, world.builder.layout(), world.stacks);
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, false, sweep);
        REQUIRE(find(sweep, task) != nullptr);
        CHECK(find(sweep, task)->state == TaskState::kWaiting);
        CHECK(world.stacks.string(find(sweep, task)->waits_for_type) == "Future");
    });
}

TEST_CASE("asyncio: tasks in the circle of their thread, whole and broken") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        if (!has(world.asyncio.layout().task.node)) return;
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = world.interpreter;
        const Address thread = world.builder.thread(spec);
        world.threads.threads.push_back({thread, world.interpreter, spec.thread_id, 100, true});
        world.asyncio.publish(world.interpreter, {});
        world.asyncio.link(thread, {world.parent, world.child});
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, true, sweep);
        CHECK(sweep.tasks.size() == 2);
        CHECK(sweep.broken_lists == 0);
        // What comes before the place where two neighbours disagree is a task all the same.
        const Address node = world.child + static_cast<std::uint64_t>(world.asyncio.layout().task.node);
        world.target.fake().put(node + 8, raw(node));
        reader.sweep(world.threads, true, sweep);
        CHECK(find(sweep, world.parent) != nullptr);
        CHECK(find(sweep, world.child) == nullptr);
        CHECK(sweep.broken_lists == 1);
        world.asyncio.link(thread, {world.parent, world.child});
        world.target.fake().put(node, std::uint64_t{0x7e0000000000});
        reader.sweep(world.threads, true, sweep);
        CHECK(sweep.tasks.size() == 2);
        CHECK(sweep.broken_lists == 1);
    });
}

TEST_CASE("asyncio: an awaiter that waits for something else is none") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        REQUIRE(reader.find(world.threads.interpreters));
        // It has gone on, and its callback still stands there.
        const Address next = world.asyncio.coroutine("root", world.asyncio.future_iter(world.future));
        world.builder.put_field(world.parent, world.asyncio.layout().task.coroutine, raw(next));
        world.builder.put_field(world.parent, world.asyncio.layout().task.fut_waiter, raw(world.future));
        TaskSweep sweep;
        reader.sweep(world.threads, false, sweep);
        CHECK(sweep.tasks.size() == 2);
        CHECK(sweep.edges.empty());
    });
}

TEST_CASE("asyncio: a task that never holds still is counted, and the others stay") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        REQUIRE(reader.find(world.threads.interpreters));
        TaskSweep sweep;
        reader.sweep(world.threads, false, sweep);
        // A word of the task that matters to nobody changes with every range that is copied.
        const Address place = world.child + static_cast<std::uint64_t>(world.asyncio.layout().task.name) + 8;
        std::uint64_t count = 0;
        world.target.fake().before_range = [&](FakeMemory& memory, const ReadRange&) { memory.put(place, ++count); };
        reader.sweep(world.threads, false, sweep);
        CHECK(sweep.torn == 1);
        CHECK(find(sweep, world.child) == nullptr);
        CHECK(find(sweep, world.parent) != nullptr);
    });
}

TEST_CASE("asyncio: coroutines in a circle, and a foreign size, are refused") {
    for_each_layout([](World& world, AsyncioReader& reader) {
        const Layout& layout = world.builder.layout();
        ObjectKinds kinds(layout);
        CoroutineReader coroutines(layout, world.asyncio.layout().coroutine, kinds);
        const Address one = world.asyncio.coroutine("one", kNullAddress);
        const Address two = world.asyncio.coroutine("two", one);
        CoroutineChain chain;
        coroutines.read_chain(world.target.memory(), two, chain);
        CHECK(chain.end == CoroutineChain::End::kTorn);  // nothing is no object
        CHECK(chain.frames.size() == 2);
        const Address self = world.asyncio.coroutine("self", kNullAddress);
        coroutines.read_chain(world.target.memory(), self, chain);
        REQUIRE(chain.frames.size() == 1);
        world.target.fake().put(chain.frames[0].address + static_cast<std::uint64_t>(layout.frame.localsplus), raw(self));
        coroutines.read_chain(world.target.memory(), self, chain);
        CHECK(chain.end == CoroutineChain::End::kEndless);
        CHECK(chain.frames.size() == 1);

        const auto type = read_pointer(world.target.memory(), world.child + static_cast<std::uint64_t>(layout.object.type));
        world.builder.put_field(*type, layout.type.basic_size, 4000);
        CHECK_FALSE(reader.find(world.threads.interpreters));
        CHECK(reader.problem().find("4000 bytes") != std::string::npos);
    });
}
