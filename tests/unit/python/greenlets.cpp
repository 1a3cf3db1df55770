// SPDX-License-Identifier: Apache-2.0
//
// Greenlets within tasks: what stands between a coroutine and what it awaits, and below a greenlet that runs. Every layout
// with a GIL.
#include "python/greenlets.h"

#include "support/asyncio_builder.h"
#include "support/frame_holding.h"
#include "support/gevent_builder.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// A greenlet that is suspended, and an answer that it may wait for.
struct World {
    explicit World(const Layout& layout, std::uint64_t self_place)
        : target("/bin/python"), builder(target.fake(), layout), gevent(builder, self_place), asyncio(builder), kinds(layout),
          reader(layout, kinds, target.memory()) {
        child = gevent.greenlet("child");
        future = asyncio.future();
        answer = asyncio.coroutine("answer", asyncio.future_iter(future));
        holder = frame_holding(builder, {{"x", builder.none()}, {"context", child}});
    }
    void hand_over(Address awaitable) { hold(builder, gevent.bottom_of(child), {{"awaitable", awaitable}}); }
    [[nodiscard]] std::vector<Address> addresses() const {
        std::vector<Address> all;
        for (const RawFrame& frame : frames) all.push_back(frame.address);
        return all;
    }
    std::vector<Address> between(Address awaited) {
        greenlet = reader.find_between(target.memory(), holder, awaited, frames);
        return addresses();
    }
    std::vector<Address> between_frames(Address awaited_frame) {
        reader.find_between_frames(target.memory(), holder, awaited_frame, frames);
        return addresses();
    }
    [[nodiscard]] std::vector<Address> child_alone() const { return {gevent.bottom_of(child).address}; }

    FakeTarget target;
    ProcessBuilder builder;
    GeventBuilder gevent;
    AsyncioBuilder asyncio;
    ObjectKinds kinds;
    GreenletReader reader;
    Address child{}, future{}, answer{};
    Address greenlet{};  // that between() found
    RawFrame holder;
    std::vector<RawFrame> frames;
};

template <class Test>
void for_each_world(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        if (known.layout.free_threaded) continue;
        for (const std::uint64_t self_place : {GeventBuilder::kSelf, GeventBuilder::kSelfUpTo30}) {
            INFO("layout of " << known.name << ", " << self_place);
            World world(known.layout, self_place);
            test(world);
        }
    }
}

}  // namespace

TEST_CASE("greenlets in tasks: between the coroutine that holds one and what it has handed over") {
    for_each_world([](World& world) {
        world.hand_over(world.answer);
        CHECK(world.between(world.answer) == world.child_alone());
        CHECK(world.reader.read(world.target.memory(), world.greenlet).main == world.gevent.main);
        CHECK(world.between_frames(world.asyncio.frame_of(world.answer).address) == world.child_alone());
        // Something else is awaited, or runs.
        const Address other = world.asyncio.coroutine("other", world.builder.none());
        CHECK(world.between(other).empty());
        CHECK(world.between_frames(world.asyncio.frame_of(other).address).empty());
        // The greenlet runs.
        world.gevent.switch_to(world.child);
        CHECK(world.between(world.answer).empty());
    });
}

TEST_CASE("greenlets in tasks: what is awaited stands for what was handed over") {
    for_each_world([](World& world) {
        world.hand_over(world.future);
        CHECK(world.between(world.asyncio.future_iter(world.future)) == world.child_alone());
        CHECK(world.between(world.asyncio.future_iter(world.asyncio.future())).empty());
        // An object that keeps a coroutine and has its __await__().
        const std::uint32_t header = world.builder.layout().object.header_size;
        const Address wrapper = world.builder.object(header + 16, world.builder.type("coroutine_wrapper"));
        world.target.fake().put(wrapper + header, raw(world.answer));
        world.hand_over(world.builder.instance("Result", {{"_coro", world.answer}}));
        CHECK(world.between(wrapper) == world.child_alone());
        world.hand_over(world.builder.instance("Result", {{"_coro", world.future}}));
        CHECK(world.between(wrapper).empty());
    });
}

TEST_CASE("greenlets in tasks: below one that runs stand the frames of the main greenlet, which holds it") {
    for_each_world([](World& world) {
        const RawFrame main = world.gevent.bottom_of(world.gevent.main);
        hold(world.builder, main, {{"context", world.child}});
        world.hand_over(world.answer);
        CHECK(world.between(world.answer) == world.child_alone());  // from which the words of all are learnt
        const auto callers = [&] { return world.reader.find_callers(world.target.memory(), world.gevent.main, world.frames); };
        CHECK_FALSE(callers());  // the hub runs
        world.gevent.switch_to(world.child, world.gevent.hub);
        CHECK_FALSE(callers());  // another one has called it
        world.gevent.switch_to(world.child, world.gevent.main);
        REQUIRE(callers());
        CHECK(world.addresses() == std::vector{main.address});
        hold(world.builder, main, {{"context", world.builder.none()}});
        CHECK_FALSE(callers());
        hold(world.builder, main, {{"context", world.child}});
        world.gevent.switch_to(world.gevent.main);
        CHECK_FALSE(callers());
        CHECK_FALSE(world.reader.find_callers(world.target.memory(), world.child, world.frames));
    });
}
