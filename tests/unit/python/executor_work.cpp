// SPDX-License-Identifier: Apache-2.0
//
// Whose work a pool's thread does, on every layout that a small asyncio can be built for; then frames that lie.
#include "python/executor_work.h"

#include "python/frame_locals.h"
#include "support/asyncio_builder.h"
#include "support/fake_memory.h"
#include "support/frame_holding.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// A task waits for a future, and a piece of work is to fill it.
struct Pool {
    explicit Pool(const Layout& layout)
        : builder(memory, layout), asyncio(builder), kinds(layout), awaiters(layout, asyncio.layout(), kinds), work(layout, kinds, awaiters) {
        ObjectKinds::AsyncioTypes types;
        future = asyncio.future();
        task = asyncio.task({"asks", asyncio.coroutine("asks", asyncio.future_iter(future)), future});
        asyncio.add_wakeup(future, task);
        types.task = *read_pointer(memory, task + at(layout.object.type));
        types.future = *read_pointer(memory, future + at(layout.object.type));
        kinds.set_asyncio_types(types);
        wakeup = *read_pointer(memory, future + at(asyncio.layout().future.callback0));
    }
    FoundWork find(const RawFrame& frame, WorkerFrame::Kind kind = WorkerFrame::Kind::kThreadPool) {
        FoundWork found;
        work.find(memory, {Address{0x1000}, frame, kind}, found);
        return found;
    }
    Address concurrent_future(const std::vector<Address>& callbacks) {
        return builder.instance("Future", {{"_done_callbacks", list_of(builder, callbacks)}});
    }

    FakeMemory memory;
    ProcessBuilder builder;
    AsyncioBuilder asyncio;
    ObjectKinds kinds;
    AwaiterFinder awaiters;
    WorkFinder work;
    Address future{}, task{}, wakeup{};
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Pool pool(known.layout);
        test(pool);
    }
}

}  // namespace

TEST_CASE("executor work: a pool's item leads over its future to the task that waits") {
    for_each_layout([](Pool& pool) {
        const Address filled = pool.concurrent_future({pool.wakeup});
        const Address item = pool.builder.instance("_WorkItem", {{"future", filled}, {"fn", pool.builder.none()}});
        const FoundWork found = pool.find(frame_holding(pool.builder, {{"self", item}}));
        CHECK(found.item == item);
        CHECK(found.future == filled);
        REQUIRE(found.awaiters.size() == 1);
        CHECK(found.awaiters[0].task == pool.task);
    });
}

TEST_CASE("executor work: a thread of anyio holds the task's own future") {
    for_each_layout([](Pool& pool) {
        const RawFrame frame = frame_holding(pool.builder, {{"self", pool.builder.none()}, {"future", pool.future}});
        const FoundWork found = pool.find(frame, WorkerFrame::Kind::kAnyio);
        CHECK(found.item == pool.future);
        REQUIRE(found.awaiters.size() == 1);
        CHECK(found.awaiters[0].task == pool.task);
        CHECK(found.awaiters[0].through == pool.future);
    });
}

TEST_CASE("executor work: what is of another type, or not set, is no work") {
    for_each_layout([](Pool& pool) {
        const Address filled = pool.concurrent_future({pool.wakeup});
        const Address other = pool.builder.instance("Job", {{"future", filled}});
        const Address lacks = pool.builder.instance("_WorkItem", {{"fn", pool.builder.none()}});
        const Address wild = pool.builder.instance("_WorkItem", {{"future", Address{0x123456789ULL << 20U}}});
        for (const Address self : {other, kNullAddress, Address{12345}, Address{0x7e0000000000}, pool.task}) {
            CHECK(pool.find(frame_holding(pool.builder, {{"self", self}})).item == kNullAddress);
        }
        CHECK(pool.find(frame_holding(pool.builder, {{"self", lacks}})).future == kNullAddress);
        CHECK(pool.find(frame_holding(pool.builder, {{"self", wild}})).awaiters.empty());
        CHECK(pool.find(frame_holding(pool.builder, {{"other", filled}})).item == kNullAddress);
        CHECK(pool.find(frame_holding(pool.builder, {{"future", filled}}), WorkerFrame::Kind::kAnyio).item == kNullAddress);
        RawFrame nowhere;
        CHECK(pool.find(nowhere).item == kNullAddress);
    });
}

TEST_CASE("executor work: futures in a circle and lists without end do end") {
    for_each_layout([](Pool& pool) {
        // future -> partial -> the same future
        const std::uint32_t header = pool.builder.layout().object.header_size;
        const Address partial = pool.builder.object(header + 32, pool.builder.type("functools.partial"));
        const Address self[] = {pool.future};
        const Address arguments = pool.builder.tuple(self);
        pool.builder.put_field(arguments, pool.builder.layout().object.type, raw(pool.builder.type("tuple")));
        pool.builder.memory().put(partial + header + 8, raw(arguments));
        pool.builder.put_field(pool.future, pool.asyncio.layout().future.callback0, raw(partial));
        const RawFrame frame = frame_holding(pool.builder, {{"future", pool.future}});
        const FoundWork found = pool.find(frame, WorkerFrame::Kind::kAnyio);
        CHECK(found.item == pool.future);
        CHECK(found.awaiters.empty());

        const Address endless = list_of(pool.builder, {pool.wakeup});
        pool.memory.put(endless + header, ~0ULL >> 8U);
        const Address filled = pool.builder.instance("Future", {{"_done_callbacks", endless}});
        const Address item = pool.builder.instance("_WorkItem", {{"future", filled}});
        CHECK(pool.find(frame_holding(pool.builder, {{"self", item}})).awaiters.empty());
    });
}

TEST_CASE("frame locals: no more are read than a function may have") {
    for_each_layout([](Pool& pool) {
        const RawFrame frame = frame_holding(pool.builder, {{"one", pool.task}, {"two", pool.future}});
        const Layout& layout = pool.builder.layout();
        std::vector<Address> locals;
        read_locals(pool.memory, layout, frame, locals);
        CHECK(locals == std::vector<Address>{pool.task, pool.future});
        CHECK(find_local(pool.memory, layout, frame.code, "two") == std::size_t{1});
        CHECK(find_local(pool.memory, layout, frame.code, "three") == kMostLocals);
        const auto names = read_pointer(pool.memory, frame.code + at(layout.code.local_names));
        pool.builder.put_field(frame.code, layout.code.nlocalsplus, 0x7fffffff, 4);
        pool.builder.put_field(*names, layout.tuple.size, 1ULL << 40U);
        read_locals(pool.memory, layout, frame, locals);
        CHECK(locals.size() <= kMostLocals);
        CHECK_FALSE(find_local(pool.memory, layout, frame.code, "two").has_value());
    });
}
