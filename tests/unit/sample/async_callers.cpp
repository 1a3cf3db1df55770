// SPDX-License-Identifier: Apache-2.0
//
// The samples of a loop's thread in which a greenlet runs that a task has switched to. Every layout with a GIL.
#include "async_world.h"

#include "support/frame_holding.h"

using namespace pyprof;
using namespace pyprof::test;

namespace {

// main > run_forever > _run_once > handler, which has switched to a greenlet, `query`; another task waits within one.
struct SwitchWorld : LoopWorld {
    explicit SwitchWorld(const Layout& layout) : LoopWorld(layout), gevent(builder) {
        const std::u32string file = U"/lib/asyncio/base_events.py";
        stem.push_back(stacked("main", U"/t/file.py", kNullAddress));
        stem.push_back(stacked("run_forever", file, stem.back().address));
        stem.push_back(stacked("_run_once", file, stem.back().address));

        handler = running("", "handler");
        query = gevent.greenlet("query");
        const RawFrame frame = asyncio.frame_of(handler.coroutine);
        hold(builder, frame, {{"context", query}});
        builder.put_field(frame.address, layout.frame.back, raw(stem.back().address));
        gevent.set_top(gevent.main, frame.address);
        gevent.switch_to(query, gevent.main);

        const Address suspended = gevent.greenlet("suspended");
        const Address future = asyncio.future();
        const Address answer = asyncio.coroutine("answer", asyncio.future_iter(future));
        const Made other = waiting("", "other", future);
        asyncio.set_awaiting(other.coroutine, answer, 1);
        hold(builder, asyncio.frame_of(other.coroutine), {{"context", suspended}});
        hold(builder, gevent.bottom_of(suspended), {{"awaitable", answer}});
    }
    void start(AsyncMode mode) {
        asyncio.publish(interpreter, listed, {"greenlet._greenlet"});
        asyncio.set_current(thread, loop, current);
        AsyncWorld::start(async_options(mode));
        begin_tick();
        std::vector<RawFrame> idle = stem;
        idle.push_back(plain("select"));
        CHECK(splice(idle, count).empty());  // from which the loop's own frames are known
    }
    // A sample of the thread in a tick of its own.
    std::string splice_query(std::uint64_t version) {
        begin_tick();
        return splice({gevent.bottom_of(query), plain("work")}, version);
    }

    GeventBuilder gevent;
    std::vector<RawFrame> stem;
    Made handler;
    Address query{};

    RawFrame stacked(const std::string& name, const std::u32string& file, Address back) {
        ObjectBuilder::CodeSpec code;
        code.name = std::u32string(name.begin(), name.end());
        code.filename = file;
        ProcessBuilder::FrameSpec spec;
        spec.code = builder.code(code);
        spec.back = back;
        spec.stack = 1;
        RawFrame frame;
        frame.address = builder.heap_frame(spec);
        frame.code = spec.code;
        const InstructionKind kind = builder.layout().instruction_kind;
        const bool is_index = kind == InstructionKind::kByteIndex || kind == InstructionKind::kCodeUnitIndex;
        if (!is_index) frame.instruction = raw(frame.code + at(builder.layout().code.bytecode));
        return frame;
    }
};

template <class Test>
void for_each_switch(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        if (known.layout.free_threaded) continue;
        INFO("layout of " << known.name);
        SwitchWorld world(known.layout);
        test(world);
    }
}

constexpr const char* kQuery = "main;run_forever;[task handler];handler;query;work";

}  // namespace

TEST_CASE("callers: a greenlet that a task has switched to stands below the task") {
    for_each_switch([](SwitchWorld& world) {
        world.start(AsyncMode::kRunning);
        CHECK(world.splice_query(world.count).empty());  // no greenlet was seen within a task before
        CHECK(world.figures().tasks_unlinked == 1);
        CHECK(world.splice_query(world.count) == kQuery);
        CHECK(world.splice_query(world.count) == kQuery);
        CHECK(world.figures().tasks_unlinked == 1);
    });
}

TEST_CASE("callers: a greenlet stands between its caller and the coroutine that it has handed over, while that runs") {
    for_each_switch([](SwitchWorld& world) {
        const Address answer = world.asyncio.coroutine("answer", kNullAddress);
        world.asyncio.set_executing(answer);
        hold(world.builder, world.gevent.bottom_of(world.query), {{"awaitable", answer}});
        world.gevent.set_top(world.query, world.gevent.bottom_of(world.query).address);
        world.gevent.switch_to(world.gevent.main);
        world.start(AsyncMode::kAll);
        world.sampler->record_waiting(world.thread, 0, false, false);
        const auto splice_answer = [&](std::uint64_t version) {
            world.begin_tick();
            std::vector<RawFrame> frames = world.stem;
            for (const Address coroutine : {world.handler.coroutine, answer}) frames.push_back(world.asyncio.frame_of(coroutine));
            frames.push_back(world.plain("work"));
            return world.splice(frames, version);
        };
        const std::string whole = "main;run_forever;[task handler];handler;query;answer;work";
        CHECK(splice_answer(world.count) == whole);
        CHECK(splice_answer(world.count) == whole);
        // Since then another one has been handed over, by another greenlet.
        world.step();
        hold(world.builder, world.gevent.bottom_of(world.query), {{"awaitable", world.builder.none()}});
        CHECK(splice_answer(world.count) == "main;run_forever;[task handler];handler;answer;work");
    });
}

TEST_CASE("callers: a greenlet that has been switched away from since its sample stays as it is") {
    for_each_switch([](SwitchWorld& world) {
        world.start(AsyncMode::kAll);
        world.sampler->record_waiting(world.thread, 0, false, false);
        REQUIRE(world.splice_query(world.count) == kQuery);
        const std::uint64_t before = world.count;
        world.step();
        CHECK(world.splice_query(before) == kQuery);  // what was known of that step still holds
        world.step();
        CHECK(world.splice_query(world.count - 2).empty());
        CHECK(world.splice_query(0).empty());
        CHECK(world.figures().tasks_unlinked == 2);
        // The task has gone on by itself, or switched to another greenlet, which another frame holds.
        world.gevent.switch_to(world.gevent.greenlet("stranger"), world.gevent.main);
        world.step();
        CHECK(world.splice_query(world.count).empty());
        world.gevent.switch_to(world.gevent.main);
        world.step();
        CHECK(world.splice_query(world.count).empty());
        CHECK(world.figures().tasks_unlinked == 4);
    });
}

TEST_CASE("callers: of a callback that has switched to a greenlet the loop's own frames stand below it") {
    for_each_switch([](SwitchWorld& world) {
        world.start(AsyncMode::kAll);
        world.sampler->record_waiting(world.thread, 0, false, false);
        hold(world.builder, world.stem.back(), {{"handle", world.query}});
        world.gevent.set_top(world.gevent.main, world.stem.back().address);
        world.gevent.switch_to(world.query, world.gevent.main);
        world.step();
        CHECK(world.splice_query(world.count) == "main;run_forever;_run_once;query;work");
        // Those of another thread's main greenlet are none of its own.
        world.gevent.set_top(world.gevent.main, world.stem.front().address);
        hold(world.builder, world.stem.front(), {{"handle", world.query}});
        world.gevent.switch_to(world.query, world.gevent.main);
        world.step();
        CHECK(world.splice_query(world.count) == "main;query;work");
        const RawFrame other = world.stacked("other_main", U"/t/file.py", kNullAddress);
        world.gevent.set_top(world.gevent.main, other.address);
        hold(world.builder, other, {{"handle", world.query}});
        world.gevent.switch_to(world.query, world.gevent.main);
        world.step();
        CHECK(world.splice_query(world.count).empty());
    });
}

TEST_CASE("callers: a loop that is run from another place is known again by its own frame") {
    for_each_switch([](SwitchWorld& world) {
        world.start(AsyncMode::kAll);
        const RawFrame other = world.stacked("other_main", U"/t/file.py", kNullAddress);
        world.gevent.switch_to(world.gevent.main);
        world.begin_tick();
        const std::vector<RawFrame> frames{other, world.stem.back(), world.asyncio.frame_of(world.handler.coroutine), world.plain("work")};
        CHECK(world.splice(frames, world.count) == "other_main;[task handler];handler;work");
    });
}
