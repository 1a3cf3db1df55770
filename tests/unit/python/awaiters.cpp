// SPDX-License-Identifier: Apache-2.0
//
// Where the callbacks of a future lead: those of asyncio, and those of the program, on every layout.
#include "python/awaiters.h"

#include "support/asyncio_builder.h"
#include "support/fake_memory.h"
#include "support/frame_holding.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

#include <array>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// "consumer" waits for a future, which others may hold.
struct World {
    explicit World(const Layout& layout)
        : builder(memory, layout), asyncio(builder), kinds(layout), finder(layout, asyncio.layout(), kinds), header(layout.object.header_size) {
        waited_for = asyncio.future();
        child = asyncio.future();
        consumer = asyncio.task({"consumer", asyncio.coroutine("consume", asyncio.future_iter(waited_for)), waited_for});
        asyncio.add_wakeup(waited_for, consumer);
        ObjectKinds::AsyncioTypes types;
        types.task = *read_pointer(memory, consumer + at(layout.object.type));
        types.future = *read_pointer(memory, child + at(layout.object.type));
        kinds.set_asyncio_types(types);
        tuple_type = builder.type("tuple");
        function_type = builder.type("function");
        cell_type = builder.type("cell");
        deque_type = builder.type("collections.deque");
        partial_type = builder.type("functools.partial");
    }
    Address tuple(const std::vector<Address>& items) {
        const Address made = builder.tuple(items);
        builder.put_field(made, builder.layout().object.type, raw(tuple_type));
        return made;
    }
    Address function(const std::u32string& name, const std::u32string& file, const std::vector<Address>& held) {
        ObjectBuilder::CodeSpec spec;
        spec.name = name;
        spec.filename = file;
        const Address made = builder.function(builder.code(spec));
        builder.put_field(made, builder.layout().object.type, raw(function_type));
        std::vector<Address> cells;
        for (const Address content : held) {
            cells.push_back(builder.object(header + 8, cell_type));
            memory.put(cells.back() + header, raw(content));
        }
        if (!cells.empty()) builder.put_field(made, asyncio.layout().function_closure, raw(tuple(cells)));
        return made;
    }
    Address partial(Address of, const std::vector<Address>& arguments) {
        const Address made = builder.object(header + 32, partial_type);
        memory.put(made + header, raw(of));
        memory.put(made + header + 8, raw(tuple(arguments)));
        return made;
    }
    // asyncio.Queue, whose next item this future waits for.
    Address queue(Address getter) {
        const Address block = builder.allocate(8 + 65 * 8);
        memory.put(block + 8, raw(getter));
        const Address deque = builder.object(96, deque_type);
        memory.put(deque + header, std::array<std::uint64_t, 4>{1, raw(block), raw(block), 0});
        return builder.instance("Queue", {{"_getters", deque}});
    }
    std::vector<FoundAwaiter> find(Address callback) {
        builder.put_field(child, asyncio.layout().future.callback0, raw(callback));
        std::vector<FoundAwaiter> found;
        finder.find(memory, child, ObjectKind::kFuture, found);
        return found;
    }

    FakeMemory memory;
    ProcessBuilder builder;
    AsyncioBuilder asyncio;
    ObjectKinds kinds;
    AwaiterFinder finder;
    std::uint32_t header;
    Address waited_for{}, child{}, consumer{};
    Address tuple_type{}, function_type{}, cell_type{}, deque_type{}, partial_type{};
};

const std::u32string kTasks = U"/lib/asyncio/tasks.py";
const std::u32string kProgram = U"/t/program.py";

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        World world(known.layout);
        test(world);
    }
}

}  // namespace

TEST_CASE("awaiters: a queue that a callback of the program holds leads to nobody") {
    for_each_layout([](World& world) {
        CHECK(world.find(world.function(U"<lambda>", kProgram, {world.queue(world.waited_for)})).empty());
        // as_completed() up to 3.12 has one for what is done.
        const auto found = world.find(world.function(U"_on_completion", kTasks, {world.queue(world.waited_for)}));
        REQUIRE(found.size() == 1);
        CHECK(found[0].task == world.consumer);
        CHECK(found[0].source == EdgeSource::kAsCompleted);
        CHECK_FALSE(is_inferred(found[0].source));
    });
}

TEST_CASE("awaiters: a future that a callback of the program holds leads on, but that is not sure") {
    for_each_layout([](World& world) {
        const Address of_program = world.function(U"wake", kProgram, {world.waited_for});
        const Address plain = world.function(U"wake", kProgram, {});
        for (const Address callback : {of_program, world.partial(plain, {world.waited_for})}) {
            const auto found = world.find(callback);
            REQUIRE(found.size() == 1);
            CHECK(found[0].task == world.consumer);
            CHECK(found[0].through == world.waited_for);
            CHECK(found[0].source == EdgeSource::kCallback);
            CHECK(is_inferred(found[0].source));
        }
        const auto known = world.find(world.function(U"_done_callback", kTasks, {world.waited_for}));
        REQUIRE(known.size() == 1);
        CHECK(known[0].source == EdgeSource::kGather);
        const auto waits = world.find(world.partial(world.function(U"_release_waiter", kTasks, {}), {world.waited_for}));
        REQUIRE(waits.size() == 1);
        CHECK(waits[0].source == EdgeSource::kWaitFor);
        CHECK_FALSE(is_inferred(waits[0].source));
    });
}

TEST_CASE("awaiters: what is not sure on the way is not sure at its end") {
    for_each_layout([](World& world) {
        const Address between = world.asyncio.future();
        world.builder.put_field(between, world.asyncio.layout().future.callback0, raw(world.function(U"wake", kProgram, {world.waited_for})));
        const auto found = world.find(world.function(U"_done_callback", kTasks, {between}));
        REQUIRE(found.size() == 1);
        CHECK(found[0].task == world.consumer);
        CHECK(is_inferred(found[0].source));
    });
}

TEST_CASE("awaiters: what run_coroutine_threadsafe() gave is told, and leads on to a task of another loop") {
    for_each_layout([](World& world) {
        const std::u32string file = U"/lib/asyncio/futures.py";
        const Address fed = world.function(U"_call_set_state", file, {world.waited_for});
        const Address given = world.builder.instance("Future", {{"_done_callbacks", list_of(world.builder, {fed})}});
        const Address lonely = world.builder.instance("Future", {{"_done_callbacks", list_of(world.builder, {})}});
        const auto found = world.find(world.function(U"_call_set_state", file, {world.builder.none(), given}));
        CHECK(world.finder.filled() == given);
        REQUIRE(found.size() == 1);
        CHECK(found[0].task == world.consumer);
        CHECK(found[0].source == EdgeSource::kChained);
        CHECK(found[0].through == world.waited_for);
        CHECK(world.find(world.function(U"_call_set_state", file, {lonely})).empty());
        CHECK(world.finder.filled() == lonely);
        // No future, and none that a callback of the program holds.
        const Address loop = world.builder.instance("EventLoop", {{"_done_callbacks", list_of(world.builder, {fed})}});
        CHECK(world.find(world.function(U"_call_set_state", file, {loop})).empty());
        CHECK(world.finder.filled() == kNullAddress);
        CHECK(world.find(world.function(U"wake", kProgram, {given})).empty());
        CHECK(world.finder.filled() == kNullAddress);
    });
}

TEST_CASE("awaiters: futures of threads that fill each other in a circle do end") {
    for_each_layout([](World& world) {
        const std::u32string file = U"/lib/asyncio/futures.py";
        const Address back = world.function(U"_call_set_state", file, {world.child});
        const Address given = world.builder.instance("Future", {{"_done_callbacks", list_of(world.builder, {back})}});
        CHECK(world.find(world.function(U"_call_set_state", file, {given})).empty());
        CHECK(world.finder.filled() == given);
    });
}
