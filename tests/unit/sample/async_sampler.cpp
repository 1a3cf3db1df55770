// SPDX-License-Identifier: Apache-2.0
//
// The samples of a loop's thread: below which tasks they are put, and when they stay as they are. Every
// layout.
#include "async_world.h"

using namespace pyprof;
using namespace pyprof::test;

namespace {

using Made = LoopWorld::Made;

}  // namespace

TEST_CASE("async sampler: what runs stands below its awaiters, each behind its boundary") {
    for_each_loop([](LoopWorld& world) {
        const Made bottom = world.running("Task-9", "bottom");
        const Made middle = world.waiting("load", "middle", bottom.task);
        world.waiting("Task-7", "top", middle.task);
        AsyncOptions options = async_options(AsyncMode::kRunning);
        world.start(options);
        world.begin_tick();
        CHECK(world.splice_step(bottom, world.count) ==
              "main;run_forever;[task top];top;[task load];middle;[task bottom];bottom;helper");
        CHECK(world.figures().tasks_unlinked == 0);
        CHECK(world.figures().tasks_inferred == 0);
        options.full_loop_frames = true;
        world.start(options);
        world.begin_tick();
        CHECK(world.splice_step(bottom, world.count) ==
              "main;run_forever;_run_once;[task top];top;[task load];middle;[task bottom];bottom;helper");
    });
}

TEST_CASE("async sampler: a second sample of the same step reads nothing") {
    for_each_loop([](LoopWorld& world) {
        const Made bottom = world.running("Task-9", "bottom");
        world.waiting("Task-7", "top", bottom.task);
        world.start(async_options(AsyncMode::kRunning));
        world.begin_tick();
        const std::string first = world.splice_step(bottom, world.count);
        CHECK(first == "main;run_forever;[task top];top;[task bottom];bottom;helper");
        world.begin_tick();
        StackBuilder::Chain chain =
            world.chain_of(world.on_loop({world.asyncio.frame_of(bottom.coroutine), world.plain("helper")}));
        world.memory().reset_counts();
        const auto spliced = world.sampler->splice(world.thread, chain, world.count);
        CHECK(world.memory().reads() == 0);
        REQUIRE(spliced);
        CHECK(world.text(spliced->place.stack) == first);
    });
}

TEST_CASE("async sampler: a task that began within the step of another one stands on top of it") {
    for_each_loop([](LoopWorld& world) {
        const Made outer = world.running("Task-1", "outer");
        const Made eager = world.running("Task-2", "eager");
        world.start(async_options(AsyncMode::kRunning));
        // Whose frame is the outer one must be known before: the loop names the inner task alone.
        world.asyncio.set_current(world.thread, world.loop, outer.task);
        world.begin_tick();
        CHECK(world.splice_step(outer, world.count) == "main;run_forever;[task outer];outer;helper");
        world.asyncio.set_current(world.thread, world.loop, eager.task);
        world.step();
        world.begin_tick();
        const std::vector<RawFrame> frames{world.asyncio.frame_of(outer.coroutine), world.plain("starts"),
                                           world.asyncio.frame_of(eager.coroutine), world.plain("helper")};
        CHECK(world.splice(world.on_loop(frames), world.count) ==
              "main;run_forever;[task outer];outer;starts;[task eager];eager;helper");
    });
}

TEST_CASE("async sampler: a coroutine of no known task stays as it is") {
    for_each_loop([](LoopWorld& world) {
        const Made waits = world.sleeping("Task-1", "waits");
        world.start(async_options(AsyncMode::kRunning));
        const Address stranger = world.asyncio.coroutine("stranger", kNullAddress);
        world.asyncio.set_executing(stranger);
        const auto splice = [&] {
            world.begin_tick();
            return world.splice(world.on_loop({world.asyncio.frame_of(stranger), world.plain("helper")}),
                                world.count);
        };
        CHECK(splice().empty());
        CHECK(world.figures().tasks_unlinked == 1);
        // Not even where the loop says that some task is in its step.
        world.asyncio.set_current(world.thread, world.loop, waits.task);
        CHECK(splice().empty());
        CHECK(world.figures().tasks_unlinked == 2);
        // The loop's own frames are no task's, and nothing is missed of them.
        world.begin_tick();
        CHECK(world.splice(world.on_loop({world.plain("select")}), world.count).empty());
        CHECK(world.figures().tasks_unlinked == 2);
        // Another thread has no loop.
        StackBuilder::Chain chain = world.chain_of(world.on_loop({world.asyncio.frame_of(stranger)}));
        CHECK_FALSE(world.sampler->splice(Address{0x7e0000000000}, chain, world.count));
        CHECK(world.figures().tasks_unlinked == 2);
    });
}

TEST_CASE("async sampler: what runs unknown all the time does not put off the look that would know it") {
    for_each_loop([](LoopWorld& world) {
        world.sleeping("Task-1", "waits");
        world.start(async_options(AsyncMode::kRunning));
        const Address stranger = world.asyncio.coroutine("stranger", kNullAddress);
        world.asyncio.set_executing(stranger);
        const auto frames = world.on_loop({world.asyncio.frame_of(stranger), world.plain("helper")});
        world.begin_tick();
        CHECK(world.splice(frames, world.count).empty());
        const std::uint64_t looks = world.figures().task_looks;
        CHECK(looks == 1);
        for (int i = 0; i < 100; ++i) {
            world.begin_tick(100ms);
            CHECK(world.splice(frames, world.count).empty());
        }
        // One each 200 ms, but what a look takes is for this machine to say.
        CHECK(world.figures().task_looks > looks);
        CHECK(world.figures().task_looks <= looks + 50);
    });
}

TEST_CASE("async sampler: where the loop has moved since the sample, a new task is refused") {
    for_each_loop([](LoopWorld& world) {
        const Made numbered = world.running("Task-1", "numbered");
        const Made named = world.running("own name", "named");
        world.start(async_options(AsyncMode::kRunning));
        const auto splice = [&](const Made& made, std::uint64_t version) {
            world.asyncio.set_current(world.thread, world.loop, made.task);
            return world.splice_step(made, version);
        };
        const std::uint64_t before = world.count;
        world.step();
        world.begin_tick();
        CHECK(splice(numbered, before).empty());
        CHECK(splice(named, before).empty());
        CHECK(splice(numbered, 0).empty());  // nobody knows what the loop had counted
        CHECK(world.figures().tasks_unlinked == 3);
        // No other task has or will have its number: it was there before the sample.
        world.begin_tick();
        CHECK(splice(numbered, before) == "main;run_forever;[task numbered];numbered;helper");
        CHECK(splice(named, before).empty());
        CHECK(world.figures().tasks_unlinked == 4);
        CHECK(splice(named, world.count) == "main;run_forever;[task own name];named;helper");
        // A new one at its place.
        world.builder.put_field(numbered.task, world.asyncio.layout().task.name,
                                raw(world.builder.str("Task-2")));
        world.begin_tick();
        CHECK(splice(numbered, before).empty());
        CHECK(world.figures().tasks_unlinked == 5);
    });
}

TEST_CASE("async sampler: a frame that has come to another task is not shown below its last one") {
    for_each_loop([](LoopWorld& world) {
        const Made first = world.running("Task-1", "shared");
        const Made second = world.make("Task-2", "idle");
        const Made third = world.sleeping("Task-3", "idle");
        world.waiting("Task-4", "awaits_first", first.task);
        world.waiting("Task-5", "awaits_second", second.task);
        world.start(async_options(AsyncMode::kRunning));
        world.begin_tick();
        CHECK(world.splice_step(first, world.count) ==
              "main;run_forever;[task awaits_first];awaits_first;[task shared];shared;helper");
        // The first task has a coroutine of its own again, that waits; the second one runs at the old one's
        // place.
        const Offset coroutine = world.asyncio.layout().task.coroutine;
        world.builder.put_field(first.task, coroutine, raw(third.coroutine));
        world.builder.put_field(
            first.task, world.asyncio.layout().task.fut_waiter,
            raw(read_pointer(world.memory(), third.task + at(world.asyncio.layout().task.fut_waiter))
                    .value()));
        world.builder.put_field(second.task, coroutine, raw(first.coroutine));
        world.asyncio.set_current(world.thread, world.loop, second.task);
        world.step();
        const std::uint64_t before = world.count;
        world.step();
        world.begin_tick();
        CHECK(world.splice_step(first, before).empty());
        CHECK(world.figures().tasks_unlinked == 1);
        CHECK(world.splice_step(first, world.count) ==
              "main;run_forever;[task awaits_second];awaits_second;[task shared];shared;helper");
    });
}

TEST_CASE("async sampler: several awaiters take turns") {
    for_each_loop([](LoopWorld& world) {
        const Made child = world.running("Task-1", "child");
        world.waiting("Task-2", "one", child.task);
        world.waiting("Task-3", "two", child.task);
        world.start(async_options(AsyncMode::kRunning));
        std::map<std::string, int> seen;
        for (int i = 0; i < 6; ++i) {
            world.begin_tick();
            ++seen[world.splice_step(child, world.count)];
        }
        CHECK(seen ==
              std::map<std::string, int>{{"main;run_forever;[task one];one;[task child];child;helper", 3},
                                         {"main;run_forever;[task two];two;[task child];child;helper", 3}});
    });
}

TEST_CASE("async sampler: a task that outlives what waited for it stays below that") {
    for (const bool with_inferred : {true, false}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.running("Task-1", "child");
            const Made parent = world.waiting("Task-2", "parent", child.task);
            AsyncOptions options = async_options(AsyncMode::kRunning);
            options.with_inferred = with_inferred;
            world.start(options);
            world.begin_tick();
            CHECK(world.splice_step(child, world.count) ==
                  "main;run_forever;[task parent];parent;[task child];child;helper");
            CHECK(world.figures().tasks_inferred == 0);
            world.asyncio.finish(parent.task);
            world.asyncio.clear_callbacks(child.task);
            world.step();
            world.begin_tick();
            CHECK(world.splice_step(child, world.count) ==
                  (with_inferred
                       ? "main;run_forever;[task parent];parent;[spawned, inferred];[task child];child;helper"
                       : "main;run_forever;[task child];child;helper"));
            CHECK(world.figures().tasks_inferred == (with_inferred ? 1 : 0));
            // Awaited again, it is as sure as before.
            world.waiting("Task-3", "heir", child.task);
            world.step();
            world.begin_tick();
            CHECK(world.splice_step(child, world.count) ==
                  "main;run_forever;[task heir];heir;[task child];child;helper");
            CHECK(world.figures().tasks_inferred == (with_inferred ? 1 : 0));
        });
    }
}

TEST_CASE("async sampler: where threads come and go, what is loaded is not asked for each time") {
    for_each_loop([](LoopWorld& world) {
        world.builder.set_modules(world.interpreter, world.builder.dict({{"sys", world.builder.none()}, {"threading", world.builder.none()}}));
        world.sampler = std::make_unique<AsyncSampler>(world.target, world.builder.layout(), world.stacks, world.codes, world.stack_builder,
                                                       world.epoch, async_options(AsyncMode::kAll));
        const auto reads = [&] {
            world.memory().reset_counts();
            world.sampler->set_threads(world.threads);
            return world.memory().reads();
        };
        world.begin_tick();
        CHECK(reads() > 0);
        for (int i = 0; i < 10; ++i) {
            world.begin_tick(10ms);
            CHECK(reads() == 0);
        }
        // It is loaded by now, and that is seen a while later, or when there is another interpreter.
        world.sleeping("Task-1", "idle");
        world.asyncio.publish(world.interpreter, world.listed);
        CHECK(reads() == 0);
        CHECK_FALSE(world.sampler->is_found());
        world.begin_tick(500ms);
        CHECK(reads() > 0);
        CHECK(world.sampler->is_found());
        CHECK(world.sampler->has_loop(world.thread));
    });
}
