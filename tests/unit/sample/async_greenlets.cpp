// SPDX-License-Identifier: Apache-2.0
//
// The samples of a thread that runs a hub of gevent. Every layout with a GIL.
#include "async_world.h"

using namespace pyprof;
using namespace pyprof::test;

namespace {

// The main greenlet has spawned two; the parent joins the child.
struct HubWorld : AsyncWorld {
    explicit HubWorld(const Layout& layout) : AsyncWorld(layout), gevent(builder) {
        parent = gevent.greenlet("parent");
        child = gevent.greenlet("child");
        gevent.set_links(child, {gevent.switch_of(parent)});
        gevent.set_spawner(parent, gevent.main);
        gevent.set_spawner(child, gevent.main);
        threads.interpreters.front().runtime = builder.allocate(4096);
        publish({});
        step();
    }
    // What the collector knows.
    void publish(std::vector<Address> more) {
        more.insert(more.begin(), {gevent.main, gevent.hub, parent, child});
        gevent.publish(interpreter, threads.interpreters.front().runtime, more);
    }
    // A switch of greenlets.
    void step() {
        builder.put_field(thread, layout_without_accelerator(builder.layout()).thread.context_version,
                          count += 2);
    }
    void start() { AsyncWorld::start(async_options(AsyncMode::kAll)); }
    // The hub waits for events.
    Recording tick_of_hub(bool is_still = false, std::chrono::nanoseconds since_last = 1h) {
        begin_tick(since_last);
        CHECK(splice({plain("Hub.run", U"/lib/gevent/hub.py"), plain("poll")}, count).empty());
        CHECK(sampler->record_waiting(thread, 0, is_still, false));
        return recorded();
    }
    std::string splice_work(Address greenlet, std::uint64_t version) {
        return splice({gevent.bottom_of(greenlet), plain("work")}, version);
    }

    GeventBuilder gevent;
    Address parent{}, child{};
    std::uint64_t count = 1;
};

template <class Test>
void for_each_hub(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        if (known.layout.free_threaded) continue;
        INFO("layout of " << known.name);
        HubWorld world(known.layout);
        test(world);
    }
}

// A third one, whose spawner is gone.
Address add_orphan(HubWorld& world) {
    const Address orphan = world.gevent.greenlet("orphan");
    world.gevent.set_spawning_stack(orphan, "maker");
    world.publish({orphan});
    return orphan;
}

constexpr const char* kChild = "main_function;[spawned];[task parent];parent;[task child];child";

}  // namespace

TEST_CASE("greenlets: each that waits once a tick, the hub's own stack as it is") {
    for_each_hub([](HubWorld& world) {
        world.start();
        const Recording expected{{"main_function", {1, 1ms}}, {kChild, {1, 1ms}}};
        for (int i = 0; i < 3; ++i) CHECK(world.tick_of_hub() == expected);
        CHECK(world.figures().tasks_unlinked == 0);
    });
}

TEST_CASE("greenlets: what runs stands below the one that joins it") {
    for_each_hub([](HubWorld& world) {
        world.start();
        world.tick_of_hub();
        world.gevent.switch_to(world.child);
        world.step();
        world.begin_tick();
        CHECK(world.splice_work(world.child, world.count) == std::string(kChild) + ";work");
        CHECK(world.sampler->record_waiting(world.thread, 0, false, true));
        CHECK(world.recorded().empty());  // all that waits is on the path of what runs
        // There was a switch since, and the greenlet is a known one that still lives.
        const std::uint64_t before = world.count;
        world.gevent.switch_to_hub(world.child);
        world.step();
        world.begin_tick();
        CHECK(world.splice_work(world.child, before) == std::string(kChild) + ";work");
        CHECK(world.figures().tasks_unlinked == 0);
    });
}

TEST_CASE("greenlets: a sample from the midst of a switch stays as it is") {
    for_each_hub([](HubWorld& world) {
        world.start();
        world.tick_of_hub();
        // Its frames are still those of the thread, and it is said to be suspended already.
        world.begin_tick();
        CHECK(world.splice_work(world.child, world.count).empty());
        CHECK(world.figures().tasks_unlinked == 1);
    });
}

TEST_CASE("greenlets: one that no look saw stays as it is") {
    for_each_hub([](HubWorld& world) {
        world.start();
        world.tick_of_hub();
        const Address stranger = world.gevent.greenlet("stranger");  // in no list of the collector
        world.gevent.switch_to(stranger);
        world.step();
        world.begin_tick();
        CHECK(world.splice_work(stranger, world.count).empty());
        CHECK(world.figures().tasks_unlinked == 1);
        // A known one that has ended, and another greenlet's frame at its place.
        world.gevent.set_words(world.child, 0, 4096, kNullAddress, world.gevent.hub);
        world.step();
        world.begin_tick();
        CHECK(world.splice_work(world.child, world.count).empty());
        CHECK(world.figures().tasks_unlinked == 2);
    });
}

TEST_CASE("greenlets: a frame that a known one does not stand on any more is not its own") {
    for_each_hub([](HubWorld& world) {
        const Address other = world.gevent.greenlet("other");
        world.start();
        world.tick_of_hub();
        const std::uint64_t before = world.count;
        world.gevent.set_frames(world.child, other);
        world.step();
        world.begin_tick();
        CHECK(world.splice_work(world.child, before).empty());
        CHECK(world.figures().tasks_unlinked == 1);
    });
}

TEST_CASE("greenlets: one that was never seen suspended is known by who runs, if there was no switch since") {
    for_each_hub([](HubWorld& world) {
        world.start();
        world.gevent.switch_to(world.child);
        world.step();
        const std::uint64_t before = world.count - 2;
        world.begin_tick();
        CHECK(world.splice_work(world.child, before).empty());
        CHECK(world.figures().tasks_unlinked == 1);
        world.begin_tick();
        CHECK(world.splice_work(world.child, world.count) == std::string(kChild) + ";work");
        CHECK(world.figures().tasks_unlinked == 1);
    });
}

TEST_CASE(
    "greenlets: one whose spawner is gone stands below where it was spawned, once that was read twice") {
    for_each_hub([](HubWorld& world) {
        add_orphan(world);
        world.start();
        const auto with = [](const std::string& orphan) {
            return Recording{{"main_function", {1, 1ms}}, {kChild, {1, 1ms}}, {orphan, {1, 1ms}}};
        };
        CHECK(world.tick_of_hub() == with("[task orphan];orphan"));
        CHECK(world.tick_of_hub(true) ==
              with("maker;[created];[task orphan];orphan"));  // though nothing has moved
        const std::uint64_t looks = world.figures().task_looks;
        CHECK(world.tick_of_hub(true) == with("maker;[created];[task orphan];orphan"));
        CHECK(world.figures().task_looks == looks);
    });
}

TEST_CASE("greenlets: what is owed at the end is paid, though something was to be read twice") {
    for_each_hub([](HubWorld& world) {
        const Address orphan = add_orphan(world);
        const Address note = world.gevent.set_spawning_stack(orphan, "other_maker");
        world.start();
        for (int i = 0; i < 2; ++i) world.tick_of_hub();
        world.gevent.set_spawning_stack(orphan, "maker");
        for (int i = 0; i < 2; ++i) world.tick_of_hub();
        world.gevent.set_spawning_stack(orphan, note);
        Holding holding(world);
        CHECK(AsyncWorld::all_of(world.tick_of_hub()) == Recorded{3, 3ms});
        CHECK(holding.holds == 1);
        CHECK(world.tick_of_hub(true, kWithinPause).empty());
        world.sampler->flush(world.thread, 0);
        CHECK(AsyncWorld::all_of(world.recorded()) == Recorded{3, 3ms});
    });
}

TEST_CASE("greenlets: one that the hub is to switch to at once is marked") {
    for (const auto kind : {GeventBuilder::LoopOf::kLibev, GeventBuilder::LoopOf::kLibuv}) {
        for_each_hub([&](HubWorld& world) {
            const auto callbacks =
                world.gevent.set_callbacks(kind, {world.gevent.switch_of_waiter(world.child)});
            world.start();
            const std::string ready = std::string(kChild) + ";[ready]";
            for (int i = 0; i < 2; ++i)
                CHECK(world.tick_of_hub() == Recording{{"main_function", {1, 1ms}}, {ready, {1, 1ms}}});
            // Its turn has come, and it waits anew.
            world.gevent.call(kind, callbacks.front());
            world.step();
            CHECK(world.tick_of_hub() == Recording{{"main_function", {1, 1ms}}, {kChild, {1, 1ms}}});
        });
    }
}
