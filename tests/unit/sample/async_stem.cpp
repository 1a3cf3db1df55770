// SPDX-License-Identifier: Apache-2.0
//
// Below which frames of a loop's thread its tasks are put: never below those of a callback, or of a greenlet. Every layout.
#include "async_world.h"

using namespace pyprof;
using namespace pyprof::test;

namespace {

using Made = LoopWorld::Made;

Recording idle_below(const std::string& stem, std::uint64_t ticks = 1) {
    return {{stem + "[task idle];idle", {ticks, ticks * AsyncWorld::kPeriod}}};
}

}  // namespace

TEST_CASE("async stem: of a loop without frames the stem ends at what runs it, not at a callback that it calls") {
    for_each_loop([](LoopWorld& world) {
        world.sleeping("Task-1", "idle");
        world.start(async_options(AsyncMode::kAll));
        const auto callback = world.on_c_loop({world.plain("data_received"), world.plain("feed_data")});
        CHECK(world.tick_at(callback) == idle_below("main;run;Runner.run;"));
        CHECK(world.tick_at(world.on_c_loop()) == idle_below("main;run;Runner.run;"));
        CHECK(world.tick_at(callback) == idle_below("main;run;Runner.run;"));
    });
}

TEST_CASE("async stem: the stack of a greenlet that a task has switched to is no part of it") {
    for (const bool has_frames : {false, true}) {
        for_each_loop([&](LoopWorld& world) {
            const Made runs = world.running("Task-2", "handler");
            world.sleeping("Task-1", "idle");
            world.start(async_options(AsyncMode::kAll));
            const std::string stem = has_frames ? "main;run_forever;" : "main;run;Runner.run;";
            const auto on_loop = [&](const std::vector<RawFrame>& frames) {
                return has_frames ? world.on_loop(frames) : world.on_c_loop(frames);
            };
            const std::vector<RawFrame> greenlet{world.plain("orm_query"), world.plain("execute")};
            CHECK(world.tick_at(greenlet).empty());  // nothing is known of the loop's frames yet
            CHECK(world.tick_at(on_loop({world.plain("callback")})) == idle_below(stem, 2));
            CHECK(world.tick_at(greenlet) == idle_below(stem));
            world.begin_tick();
            CHECK(world.splice(on_loop({world.asyncio.frame_of(runs.coroutine)}), world.count) == stem + "[task handler];handler");
        });
    }
}

TEST_CASE("async stem: where nobody knows what runs the loop it is learnt of a task that was seen to wait") {
    for_each_loop([](LoopWorld& world) {
        world.sleeping("Task-1", "idle");
        const Made eager = world.running("Task-2", "eager");
        world.start(async_options(AsyncMode::kAll));
        const auto serve = [&](const std::vector<RawFrame>& frames) {
            std::vector<RawFrame> all{world.plain("main"), world.plain("serve")};
            all.insert(all.end(), frames.begin(), frames.end());
            return all;
        };
        // A callback, or the wait for the next event: this stack does not say.
        CHECK(world.tick_at(serve({world.plain("callback")})).empty());
        world.begin_tick();
        // An eager task is made within a callback.
        const auto in_eager = serve({world.plain("callback"), world.asyncio.frame_of(eager.coroutine)});
        CHECK(world.splice(in_eager, world.count) == "main;serve;callback;[task eager];eager");
        CHECK_FALSE(world.sampler->record_waiting(world.thread, 0, false, true));
        world.awaits(eager, world.asyncio.future());
        world.step();
        (void)world.tick_at(serve({world.plain("callback")}));
        // It was seen to wait, and goes on.
        world.begin_tick();
        world.step();
        world.run(eager);
        CHECK(world.splice(serve({world.asyncio.frame_of(eager.coroutine)}), world.count) == "main;serve;[task eager];eager");
        CHECK(world.sampler->record_waiting(world.thread, 0, false, true));
        CHECK(world.recorded() == idle_below("main;serve;", 4));
    });
}

TEST_CASE("async stem: a thread that waits for events stands in its loop") {
    for_each_loop([](LoopWorld& world) {
        world.sleeping("Task-1", "idle");
        world.start(async_options(AsyncMode::kAll));
        StackBuilder::Chain waits = world.chain_of({world.plain("main"), world.plain("serve")});
        world.begin_tick();
        CHECK_FALSE(world.sampler->splice(world.thread, waits, world.count));
        world.sampler->learn_idle_stem(world.thread, waits);
        world.sampler->record_waiting(world.thread, 0, false, false);
        CHECK(world.recorded() == idle_below("main;serve;"));
        CHECK(world.tick_at({world.plain("main"), world.plain("serve"), world.plain("callback")}) == idle_below("main;serve;"));
        // A greenlet's own wait says nothing of the loop.
        StackBuilder::Chain greenlet = world.chain_of({world.plain("query"), world.plain("poll")});
        world.sampler->learn_idle_stem(world.thread, greenlet);
        CHECK(world.tick_at({world.plain("query")}) == idle_below("main;serve;"));
        // The loop is run from elsewhere: below what is not known.
        CHECK(world.tick_at({world.plain("main"), world.plain("again"), world.plain("callback")}).empty());
    });
}

TEST_CASE("async stem: a function of the program that is called as the loop's own is none") {
    for_each_loop([](LoopWorld& world) {
        const Made runs = world.running("Task-1", "runs");
        world.start(async_options(AsyncMode::kRunning));
        world.begin_tick();
        std::vector<RawFrame> frames = world.on_c_loop({world.asyncio.frame_of(runs.coroutine), world.plain("_run_once", U"/t/game.py")});
        CHECK(world.splice(frames, world.count) == "main;run;Runner.run;[task runs];runs;_run_once");
    });
}

TEST_CASE("async stem: a generator within which the loop is run is not taken for the task") {
    for (const bool has_entry : {true, false}) {
        for_each_loop([&](LoopWorld& world) {
            const Made runs = world.sleeping("Task-1", "runs");
            world.start(async_options(AsyncMode::kRunning));
            RawFrame outer = world.asyncio.frame_of(world.asyncio.coroutine("steps_of_build", kNullAddress));
            std::vector<RawFrame> frames{world.plain("main"), outer};
            if (has_entry) frames.push_back(world.plain("run", U"/lib/uvloop/__init__.py"));
            frames.push_back(world.asyncio.frame_of(runs.coroutine));
            world.begin_tick();
            (void)world.splice(frames, world.count);  // not known yet: all tasks are looked at
            world.run(runs);
            world.step();
            const std::string expected = has_entry ? "main;steps_of_build;run;[task runs];runs" : "main;steps_of_build;[task runs];runs";
            for (int i = 0; i < 2; ++i) {
                world.begin_tick();
                CHECK(world.splice(frames, world.count) == expected);
            }
        });
    }
}

TEST_CASE("async stem: the coroutine that uvloop.run() puts around another one is machinery") {
    for (const bool is_full : {false, true}) {
        for_each_loop([&](LoopWorld& world) {
            const Made child = world.sleeping("Task-2", "child");
            const Address inner = world.asyncio.coroutine("serve", world.asyncio.future_iter(child.task));
            Made own;
            own.coroutine = world.asyncio.coroutine("run.<locals>.wrapper", inner, U"/lib/uvloop/__init__.py");
            own.task = world.asyncio.task({"Task-1", own.coroutine, child.task});
            world.builder.put_field(own.task, world.asyncio.layout().future.loop, raw(world.loop));
            world.asyncio.add_wakeup(child.task, own.task);
            world.listed.push_back(own.task);
            AsyncOptions options = async_options(AsyncMode::kAll);
            options.full_loop_frames = is_full;
            world.start(options);
            const std::string expected = is_full ? "main;run;Runner.run;[task run.<locals>.wrapper];run.<locals>.wrapper;serve;" : "main;run;Runner.run;[task serve];serve;";
            CHECK(world.tick_at(world.on_c_loop()) == Recording{{expected + "[task child];child", {1, 1ms}}});
            // It goes on.
            world.asyncio.finish(child.task);
            const RawFrame outermost = world.asyncio.frame_of(own.coroutine);
            const RawFrame innermost = world.asyncio.frame_of(inner);
            world.asyncio.set_executing(inner);
            world.run(own);
            world.step();
            world.begin_tick();
            CHECK(world.splice(world.on_c_loop({outermost, innermost, world.plain("work")}), world.count) == expected + "work");
        });
    }
}
