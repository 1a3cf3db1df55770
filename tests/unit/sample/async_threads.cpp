// SPDX-License-Identifier: Apache-2.0
//
// Tasks for which a thread waits, or a task of another loop: below whom they stand. Every layout.
#include "async_world.h"

#include "support/frame_holding.h"

using namespace pyprof;
using namespace pyprof::test;

namespace {

using Made = LoopWorld::Made;

const std::u32string kFutures = U"/lib/concurrent/futures/_base.py";
constexpr Address kSleeper{0x5000};

struct ThreadWorld : LoopWorld {
    explicit ThreadWorld(const Layout& layout) : LoopWorld(layout) {
        given = builder.instance("Future", {{"_done_callbacks", list_of(builder, {})}});
        other = builder.instance("Future", {{"_done_callbacks", list_of(builder, {})}});
    }
    void start(AsyncMode mode) {
        LoopWorld::start(async_options(mode));
        sampler->set_sleeps_on([this](Address) { return sleeps_on; });
    }
    // A frame of a function of concurrent.futures that waits for a future.
    RawFrame waiting_for(Address future, const std::u32string& function = U"result") {
        ObjectBuilder::CodeSpec spec;
        spec.name = function;
        spec.filename = kFutures;
        RawFrame frame = frame_holding(builder, {{"self", future}}, spec);
        frame.instruction = plain("worker").instruction == 0 ? 0 : raw(frame.code + at(builder.layout().code.bytecode));
        return frame;
    }
    RawFrame lock() { return plain("wait", U"/lib/threading.py"); }
    void sees_asleep(const std::vector<RawFrame>& root_first) {
        sampler->note_sleeper(kSleeper, chain_of(root_first));
        sampler->forget_woken([](Address) { return false; });
    }
    // A tick in which the thread sleeps so, and what is recorded of the loop's tasks.
    Recording tick_with(const std::vector<RawFrame>& root_first) {
        begin_tick();
        sees_asleep(root_first);
        CHECK(splice(on_loop({plain("select")}), count).empty());
        sampler->record_waiting(thread, 0, false, false);
        return recorded();
    }

    Address given{}, other{};
    bool sleeps_on = true;
};

template <class Test>
void for_each_world(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        ThreadWorld world(known.layout);
        test(world);
    }
}

const Recording kAtLoop{{"main;run_forever;[task asked];asked", {1, 1ms}}};
const Recording kBelowThread{{"worker;call_it;result;[task asked];asked", {1, 1ms}}};

}  // namespace

TEST_CASE("async threads: a task stands below the thread that sleeps until its end") {
    for_each_world([](ThreadWorld& world) {
        const Made asked = world.sleeping("Task-1", "asked");
        world.asyncio.add_chain(asked.task, world.given);
        world.start(AsyncMode::kAll);
        CHECK_FALSE(world.sampler->wants_sleepers());
        CHECK(world.tick() == kAtLoop);
        CHECK(world.sampler->wants_sleepers());
        const std::vector<RawFrame> stack{world.plain("worker"), world.plain("call_it"), world.waiting_for(world.given), world.lock()};
        CHECK(world.tick_with(stack) == kBelowThread);
        // It sleeps on, and is not looked at again; then it is not known any more to do so.
        world.begin_tick();
        world.sampler->forget_woken([](Address thread) { return thread == kSleeper; });
        world.sampler->record_waiting(world.thread, 0, false, false);
        CHECK(world.recorded() == kBelowThread);
        world.begin_tick();
        world.sampler->forget_woken([](Address) { return false; });
        world.sampler->record_waiting(world.thread, 0, false, false);
        CHECK(world.recorded() == kAtLoop);
    });
}

TEST_CASE("async threads: one that runs stands below the thread, with those that wait for it between") {
    for_each_world([](ThreadWorld& world) {
        const Made child = world.running("Task-1", "child");
        const Made asked = world.waiting("Task-2", "asked", child.task);
        world.asyncio.add_chain(asked.task, world.given);
        world.start(AsyncMode::kRunning);
        world.begin_tick();
        CHECK(world.splice_step(child, world.count) == "main;run_forever;[task asked];asked;[task child];child;helper");
        CHECK(world.sampler->wants_sleepers());
        world.begin_tick();
        world.sees_asleep({world.plain("worker"), world.waiting_for(world.given, U"exception"), world.lock()});
        CHECK(world.splice_step(child, world.count) == "worker;exception;[task asked];asked;[task child];child;helper");
        CHECK(world.figures().tasks_unlinked == 0);
    });
}

TEST_CASE("async threads: no thread is shown that may have gone on, or waits for something else") {
    for_each_world([](ThreadWorld& world) {
        const Made asked = world.sleeping("Task-1", "asked");
        world.asyncio.add_chain(asked.task, world.given);
        world.start(AsyncMode::kAll);
        const RawFrame worker = world.plain("worker");
        const RawFrame result = world.waiting_for(world.given);
        CHECK(world.tick_with({worker, world.waiting_for(world.other), world.lock()}) == kAtLoop);
        CHECK(world.tick_with({worker, world.waiting_for(world.builder.none()), world.lock()}) == kAtLoop);
        // A handler of a signal, say, that was called while it waited; a function that only is called alike.
        CHECK(world.tick_with({worker, result, world.lock(), world.plain("handler")}) == kAtLoop);
        CHECK(world.tick_with({worker, result}) == kAtLoop);
        CHECK(world.tick_with({worker, world.waiting_for(world.given, U"set_result"), world.lock()}) == kAtLoop);
        world.sleeps_on = false;
        CHECK(world.tick_with({worker, result, world.lock()}) == kAtLoop);
        // It went on between its own sample and the look at the tasks.
        world.sleeps_on = true;
        world.begin_tick();
        world.sees_asleep({worker, result, world.lock()});
        world.sleeps_on = false;
        world.sampler->record_waiting(world.thread, 0, false, false);
        CHECK(world.recorded() == kAtLoop);
    });
}

TEST_CASE("async threads: a task for which one of another loop waits stands below that loop") {
    for_each_world([](ThreadWorld& world) {
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = world.interpreter;
        spec.thread_id = GeventBuilder::kPthread + 1;
        const Address second = world.builder.thread(spec);
        world.threads.threads.push_back({second, world.interpreter, GeventBuilder::kPthread + 1, FakeTarget::kPid + 1, false});
        const Address second_loop = world.builder.object(64);
        world.asyncio.set_loop(second, second_loop, FakeTarget::kPid);
        world.asyncio.set_count(second, 1);

        const Address future = world.asyncio.future();
        world.waiting("Task-1", "bridge", future);
        const Made asked = world.sleeping("Task-2", "asked");
        world.builder.put_field(asked.task, world.asyncio.layout().future.loop, raw(second_loop));
        const Address callbacks = list_of(world.builder, {world.asyncio.chain_to(future)});
        world.asyncio.add_chain(asked.task, world.builder.instance("Future", {{"_done_callbacks", callbacks}}));
        world.start(AsyncMode::kAll);

        const auto tick = [&] {
            world.begin_tick();
            StackBuilder::Chain chain = world.chain_of({world.plain("others"), world.plain("_run_once", U"/lib/asyncio/base_events.py"), world.plain("select")});
            CHECK_FALSE(world.sampler->splice(second, chain, 1));
            world.sampler->record_waiting(second, 0, false, false);
            return world.recorded();
        };
        // Where the other loop stands is not known yet.
        CHECK(tick().empty());
        CHECK(world.figures().tasks_torn == 1);
        CHECK(world.sampler->needs_stem(world.thread));
        CHECK_FALSE(world.sampler->needs_stem(second));
        CHECK(world.tick().empty());  // its one task waits for another
        CHECK_FALSE(world.sampler->needs_stem(world.thread));
        CHECK(tick() == Recording{{"main;run_forever;[task bridge];bridge;[task asked];asked", {2, 2ms}}});  // for the tick of the other loop, too
    });
}
