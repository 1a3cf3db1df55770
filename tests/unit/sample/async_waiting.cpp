// SPDX-License-Identifier: Apache-2.0
//
// What is recorded of tasks that wait: each as often and for as long as it waited, whenever it was looked at.
// Every layout.
#include "async_world.h"

#include "base/clock.h"

#include <algorithm>

using namespace pyprof;
using namespace pyprof::test;

namespace {

using Made = LoopWorld::Made;

AsyncOptions all_tasks() {
    return async_options(AsyncMode::kAll);
}

// Tasks "Task-1" ..., each in a function of its own: idle1, idle2, ...
std::vector<std::string> add_sleepers(LoopWorld& world, int number) {
    std::vector<std::string> stacks;
    for (int i = 1; i <= number; ++i) {
        const std::string function = "idle" + std::to_string(i);
        world.sleeping("Task-" + std::to_string(i), function);
        stacks.push_back("main;run_forever;[task " + function + "];" + function);
    }
    return stacks;
}

}  // namespace

TEST_CASE("waiting tasks: each leaf once a tick, with the tick's weight") {
    for_each_loop([](LoopWorld& world) {
        const Made child = world.sleeping("Task-1", "child");
        world.waiting("Task-2", "parent", child.task);
        world.sleeping("Task-3", "idle");
        world.sleeping("Task-4", "idle");
        world.start(all_tasks());
        const Recording expected{{"main;run_forever;[task parent];parent;[task child];child", {1, 1ms}},
                                 {"main;run_forever;[task idle];idle", {2, 2ms}}};
        for (int i = 0; i < 3; ++i) CHECK(world.tick() == expected);
        CHECK(world.figures().task_samples == 9);
        CHECK(world.figures().most_tasks == 4);
        CHECK(world.figures().tasks_torn == 0);
    });
}

TEST_CASE("waiting tasks: a loop that is still is not looked at again") {
    for_each_loop([](LoopWorld& world) {
        const std::vector<std::string> stacks = add_sleepers(world, 2);
        world.start(all_tasks());
        const Recording expected{{stacks[0], {1, 1ms}}, {stacks[1], {1, 1ms}}};
        CHECK(world.tick() == expected);
        const std::uint64_t looks = world.figures().task_looks;
        world.begin_tick();
        world.memory().reset_counts();
        CHECK(world.sampler->record_waiting(world.thread, 0, true, false));
        CHECK(world.memory().reads() == 0);
        CHECK(world.figures().task_looks == looks);
        CHECK(world.recorded() == expected);
        // It has moved: what is new is seen.
        world.asyncio.finish(world.listed[1]);
        world.step();
        CHECK(world.tick() == Recording{{stacks[0], {1, 1ms}}});
        CHECK(world.figures().task_looks > looks);
    });
}

TEST_CASE("waiting tasks: one that could go on is marked") {
    for_each_loop([](LoopWorld& world) {
        const Address future = world.asyncio.future();
        world.waiting("Task-1", "reads", future);
        world.start(all_tasks());
        CHECK(world.tick() == Recording{{"main;run_forever;[task reads];reads", {1, 1ms}}});
        world.asyncio.finish(future);
        CHECK(world.tick() == Recording{{"main;run_forever;[task reads];reads;[ready]", {1, 1ms}}});
    });
}

TEST_CASE("waiting tasks: what this tick's own sample shows is not recorded again") {
    for_each_loop([](LoopWorld& world) {
        const Made child = world.running("Task-1", "child");
        world.waiting("Task-2", "parent", child.task);
        world.sleeping("Task-3", "idle");
        world.start(all_tasks());
        CHECK(world.tick() == Recording{{"main;run_forever;[task idle];idle", {1, 1ms}}});  // the child runs
        world.begin_tick();
        CHECK(world.splice_step(child, world.count) ==
              "main;run_forever;[task parent];parent;[task child];child;helper");
        // It has come to an await between the sample and the look.
        world.awaits(child, world.asyncio.future());
        world.step();
        CHECK(world.sampler->record_waiting(world.thread, 0, false, true));
        CHECK(world.recorded() == Recording{{"main;run_forever;[task idle];idle", {1, 1ms}}});
    });
}

TEST_CASE("waiting tasks: nothing is said before the loop's own frames are known") {
    for_each_loop([](LoopWorld& world) {
        const std::vector<std::string> stacks = add_sleepers(world, 1);
        world.start(all_tasks());
        world.begin_tick();
        CHECK_FALSE(world.sampler->record_waiting(world.thread, 0, false, false));
        CHECK(world.recorded().empty());
        // Then the time since is paid.
        CHECK(world.tick() == Recording{{stacks[0], {2, 2ms}}});
    });
}

TEST_CASE("waiting tasks: the time of a pause between two looks is paid in full") {
    for_each_loop([](LoopWorld& world) {
        const std::vector<std::string> stacks = add_sleepers(world, 2);
        world.start(all_tasks());
        const auto each = [&](std::uint64_t ticks) {
            const Recorded one{ticks, ticks * AsyncWorld::kPeriod};
            return Recording{{stacks[0], one}, {stacks[1], one}};
        };
        CHECK(world.tick() == each(1));
        CHECK(world.tick() == each(1));
        Holding holding(world);
        CHECK(world.tick() == each(1));
        CHECK(holding.holds == 1);
        for (int i = 0; i < 3; ++i) CHECK(world.tick(false, kWithinPause).empty());
        CHECK(holding.holds == 1);
        CHECK(world.tick() == each(4));
        CHECK(holding.holds == 2);
        // And at the end.
        for (int i = 0; i < 2; ++i) CHECK(world.tick(false, kWithinPause).empty());
        world.sampler->flush(world.thread, 0);
        CHECK(world.recorded() == each(2));
        world.sampler->flush(world.thread, 0);
        CHECK(world.recorded().empty());
        CHECK(world.figures().task_samples == 2 * 9);
    });
}

TEST_CASE("waiting tasks: what a loop's tasks are owed when it ends within a pause is counted as missed") {
    for_each_loop([](LoopWorld& world) {
        add_sleepers(world, 2);
        world.start(all_tasks());
        CHECK(world.tick().size() == 2);
        const Holding holding(world);
        CHECK(world.tick().size() == 2);
        for (int i = 0; i < 3; ++i) CHECK(world.tick(false, kWithinPause).empty());
        CHECK(world.figures().tasks_torn == 0);
        world.asyncio.set_loop(world.thread, kNullAddress, FakeTarget::kPid);
        world.sampler->set_threads(world.threads);
        CHECK_FALSE(world.sampler->has_loop(world.thread));
        CHECK(world.figures().tasks_torn == 2 * 3);
    });
}

TEST_CASE("waiting tasks: the pause after a slow look stands, though the look could not hold the thread") {
    for_each_loop([](LoopWorld& world) {
        add_sleepers(world, 2);
        world.start(all_tasks());
        CHECK(world.tick().size() == 2);
        world.sampler->set_hold([](Address, const std::function<void()>&) { return false; });
        world.memory().before_range = [&world](FakeMemory&, const ReadRange&) {
            world.step();
            const auto began = thread_cpu_time();
            while (thread_cpu_time() - began < 2ms) {
            }
        };
        CHECK(world.tick().empty());
        world.memory().before_range = {};
        const std::uint64_t looks = world.figures().task_looks;
        CHECK(world.tick(false, 50ms).empty());
        CHECK(world.figures().task_looks == looks);
        CHECK(world.tick().size() == 2);
    });
}

TEST_CASE("waiting tasks: who waits for a task that could not be read is not shown in its place") {
    for (const bool by_gather : {false, true}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.sleeping("Task-1", "child");
            const Address outer = by_gather ? world.asyncio.future() : child.task;
            world.waiting("Task-2", "parent", outer);
            if (by_gather) world.asyncio.add_gather(child.task, outer);
            world.sleeping("Task-3", "idle");
            world.start(all_tasks());
            const std::string idle = "main;run_forever;[task idle];idle";
            CHECK(world.tick() == Recording{{"main;run_forever;[task parent];parent;[task child];child", {1, 1ms}}, {idle, {1, 1ms}}});
            // Its coroutine and its task contradict each other.
            world.builder.put_field(child.task, world.asyncio.layout().task.fut_waiter, raw(world.asyncio.future()));
            for (std::uint64_t i = 1; i <= 2; ++i) {
                world.step();
                CHECK(world.tick() == Recording{{idle, {1, 1ms}}});
                CHECK(world.figures().tasks_torn == i);
            }
        });
    }
}

TEST_CASE("waiting tasks: of very many some are drawn, and stand for all") {
    for_each_loop([](LoopWorld& world) {
        const std::vector<std::string> stacks = add_sleepers(world, 10);
        AsyncOptions options = all_tasks();
        options.most_leaves = 3;
        world.start(options);
        for (int i = 0; i < 20; ++i) {
            const Recording recording = world.tick();
            CHECK(recording.size() == 3);
            CHECK(AsyncWorld::all_of(recording) == Recorded{10, 10ms});
            for (const auto& [stack, recorded] : recording) {
                CHECK(std::count(stacks.begin(), stacks.end(), stack) == 1);
            }
        }
    });
}

TEST_CASE("waiting tasks: by shares there is one sample a loop and tick") {
    for_each_loop([](LoopWorld& world) {
        const std::vector<std::string> stacks = add_sleepers(world, 5);
        AsyncOptions options = all_tasks();
        options.weight = AsyncWeight::kShare;
        world.start(options);
        for (int i = 0; i < 20; ++i) {
            const Recording recording = world.tick();
            REQUIRE(recording.size() == 1);
            CHECK(recording.begin()->second == Recorded{1, 1ms});
            CHECK(std::count(stacks.begin(), stacks.end(), recording.begin()->first) == 1);
        }
        // What runs is the tick's one sample.
        world.begin_tick();
        CHECK(world.sampler->record_waiting(world.thread, 0, false, true));
        CHECK(world.recorded().empty());
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{1, 1ms});
    });
}

TEST_CASE("waiting tasks: by shares, of a pause the ticks in which it ran are not owed, and all others are") {
    for_each_loop([](LoopWorld& world) {
        add_sleepers(world, 5);
        AsyncOptions options = all_tasks();
        options.weight = AsyncWeight::kShare;
        world.start(options);
        const auto runs = [&](std::chrono::nanoseconds since_last) {
            world.begin_tick(since_last);
            CHECK(world.sampler->record_waiting(world.thread, 0, false, true));
            CHECK(world.recorded().empty());
        };
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{1, 1ms});
        Holding holding(world);
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{1, 1ms});
        runs(kWithinPause);
        CHECK(world.tick(false, kWithinPause).empty());
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{2, 2ms});
        // It runs when the pause is over.
        CHECK(world.tick(false, kWithinPause).empty());
        runs(1h);
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{2, 2ms});
        CHECK(world.tick(false, kWithinPause).empty());
        runs(kWithinPause);
        world.sampler->flush(world.thread, 0);
        CHECK(AsyncWorld::all_of(world.recorded()) == Recorded{1, 1ms});
    });
}

TEST_CASE("waiting tasks: several awaiters take turns, with one look or with many") {
    for (const bool is_still : {false, true}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.sleeping("Task-1", "child");
            world.waiting("Task-2", "one", child.task);
            world.waiting("Task-3", "two", child.task);
            world.start(all_tasks());
            Recording sum;
            for (int i = 0; i < 6; ++i) {
                for (const auto& [stack, recorded] : world.tick(is_still)) {
                    sum[stack].samples += recorded.samples;
                    sum[stack].weight += recorded.weight;
                }
            }
            CHECK(sum == Recording{{"main;run_forever;[task one];one;[task child];child", {3, 3ms}},
                                   {"main;run_forever;[task two];two;[task child];child", {3, 3ms}}});
        });
    }
}

TEST_CASE("waiting tasks: several awaiters take turns, whatever number of ticks a record stands for") {
    for_each_loop([&](LoopWorld& world) {
        const Made child = world.sleeping("Task-1", "child");
        world.waiting("Task-2", "one", child.task);
        world.waiting("Task-3", "two", child.task);
        world.start(all_tasks());
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{1, 1ms});
        const Holding holding(world);
        CHECK(AsyncWorld::all_of(world.tick()) == Recorded{1, 1ms});
        std::map<std::string, Recorded> sum;
        for (int i = 0; i < 6; ++i) {
            CHECK(world.tick(false, kWithinPause).empty());
            for (const auto& [stack, recorded] : world.tick()) {
                sum[stack].samples += recorded.samples;
                sum[stack].weight += recorded.weight;
            }
        }
        CHECK(sum == Recording{{"main;run_forever;[task one];one;[task child];child", {6, 6ms}},
                               {"main;run_forever;[task two];two;[task child];child", {6, 6ms}}});
    });
}

TEST_CASE("waiting tasks: those that await each other stand below a marker") {
    for_each_loop([](LoopWorld& world) {
        const Made one = world.make("Task-1", "one");
        const Made two = world.make("Task-2", "two");
        world.awaits(one, two.task);
        world.awaits(two, one.task);
        world.start(all_tasks());
        CHECK(world.tick() ==
              Recording{{"main;run_forever;[await cycle];[task two];two;[task one];one", {1, 1ms}},
                        {"main;run_forever;[await cycle];[task one];one;[task two];two", {1, 1ms}}});
    });
}

TEST_CASE("waiting tasks: one at the place of another is not shown below that one's parent") {
    for_each_loop([](LoopWorld& world) {
        const Made child = world.sleeping("worker", "child");
        const Made parent = world.waiting("Task-2", "parent", child.task);
        world.start(all_tasks());
        CHECK(world.tick() == Recording{{"main;run_forever;[task parent];parent;[task worker];child", {1, 1ms}}});
        world.asyncio.finish(parent.task);
        world.replace(child);
        CHECK(world.tick() == Recording{{"main;run_forever;[task worker];child", {1, 1ms}}});
    });
}

TEST_CASE("waiting tasks: one that was gone in a look is another one afterwards") {
    for (const bool is_whole : {false, true}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.sleeping("worker", "child");
            const Made parent = world.waiting("Task-2", "parent", child.task);
            world.start(all_tasks());
            CHECK(world.tick().size() == 1);
            world.asyncio.finish(parent.task);
            world.asyncio.clear_callbacks(child.task);
            if (is_whole) {
                world.asyncio.finish(child.task);
                world.step();
                CHECK(world.tick().empty());
                world.asyncio.revive(child.task);
            }
            world.step();
            const std::string below = is_whole ? "main;run_forever;" : "main;run_forever;[task parent];parent;[spawned, inferred];";
            CHECK(world.tick() == Recording{{below + "[task worker];child", {1, 1ms}}});
        });
    }
}

TEST_CASE("waiting tasks: one that outlives what waited for it stays below that") {
    for (const bool with_inferred : {true, false}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.sleeping("Task-1", "child");
            const Made parent = world.waiting("Task-2", "parent", child.task);
            AsyncOptions options = all_tasks();
            options.with_inferred = with_inferred;
            world.start(options);
            CHECK(world.tick() ==
                  Recording{{"main;run_forever;[task parent];parent;[task child];child", {1, 1ms}}});
            world.asyncio.finish(parent.task);
            world.asyncio.clear_callbacks(child.task);
            world.step();
            const std::string below =
                with_inferred ? "main;run_forever;[task parent];parent;[spawned, inferred];[task child];child"
                              : "main;run_forever;[task child];child";
            CHECK(world.tick() == Recording{{below, {1, 1ms}}});
            CHECK(world.figures().tasks_inferred == (with_inferred ? 1 : 0));
        });
    }
}

TEST_CASE("waiting tasks: one that nobody awaits stands below the one whose variable holds it") {
    for (const bool with_inferred : {true, false}) {
        for_each_loop([&](LoopWorld& world) {
            const Made parent = world.sleeping("Task-1", "parent");
            const Made child = world.sleeping("Task-2", "child");
            world.asyncio.set_variable(parent.coroutine, child.task);
            AsyncOptions options = all_tasks();
            options.with_inferred = with_inferred;
            world.start(options);
            for (int i = 0; i < 4; ++i) world.tick();  // until the pages are known on which all of it stands
            const std::string below = with_inferred ? "main;run_forever;[task parent];parent;[spawned, inferred];" : "main;run_forever;";
            const Recording expected{{"main;run_forever;[task parent];parent", {1, 1ms}}, {below + "[task child];child", {1, 1ms}}};
            CHECK(world.tick() == expected);
            // It is remembered while both live.
            world.asyncio.set_variable(parent.coroutine, world.builder.none());
            world.step();
            CHECK(world.tick() == expected);
        });
    }
}

TEST_CASE("waiting tasks: what is awaited and holds who waits for it has not made that one") {
    for_each_loop([](LoopWorld& world) {
        const Made child = world.sleeping("first", "child");
        const Made parent = world.waiting("second", "parent", child.task);
        world.asyncio.set_variable(child.coroutine, parent.task);
        world.start(all_tasks());
        for (int i = 0; i < 5; ++i) CHECK(world.tick() == Recording{{"main;run_forever;[task second];parent;[task first];child", {1, 1ms}}});
    });
}

TEST_CASE("waiting tasks: who holds a task is told of no other one at its place") {
    for_each_loop([](LoopWorld& world) {
        const Made parent = world.sleeping("parent", "parent");
        const Made child = world.sleeping("child", "child");
        world.asyncio.set_variable(parent.coroutine, child.task);
        AsyncOptions options = all_tasks();
        world.start(options);
        for (int i = 0; i < 4; ++i) world.tick();
        world.asyncio.set_variable(parent.coroutine, world.builder.none());
        world.replace(child);
        const Recording expected{{"main;run_forever;[task parent];parent", {1, 1ms}}, {"main;run_forever;[task child];child", {1, 1ms}}};
        for (int i = 0; i < 3; ++i) CHECK(world.tick() == expected);
    });
}
