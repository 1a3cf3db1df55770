// SPDX-License-Identifier: Apache-2.0
//
// Whose variables hold a task that nobody awaits, on every layout; then containers that lie.
#include "python/task_holders.h"

#include "support/fake_memory.h"
#include "support/frame_holding.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr TaskIndex kOrphan = 0, kHolder = 1, kOther = 2;

// Task 0 is awaited by nobody; 1 and 2 have two frames each, leaf first.
struct Three {
    explicit Three(const Layout& layout) : builder(memory, layout), kinds(layout), holders(layout, kinds) {
        for (std::size_t i = 0; i < 3; ++i) {
            tasks[i] = builder.object(64, builder.type("Task"));
            hold(i, {}, {});
        }
    }
    using Variables = std::vector<std::pair<std::string, Address>>;
    void hold(std::size_t task, const Variables& leaf, const Variables& own) {
        frames[task] = {frame_holding(builder, leaf), frame_holding(builder, own)};
    }
    std::vector<TaskEdge> find() {
        std::vector<TaskHolders::Entry> entries;
        for (std::size_t i = 0; i < 3; ++i) entries.push_back({tasks[i], frames[i], numbers[i], is_suspended[i], i == kOrphan});
        std::vector<TaskEdge> edges;
        holders.find(memory, entries, edges);
        return edges;
    }
    Address typed(Address object, std::string_view type) {
        builder.put_field(object, builder.layout().object.type, raw(builder.type(type)));
        return object;
    }

    FakeMemory memory;
    ProcessBuilder builder;
    ObjectKinds kinds;
    TaskHolders holders;
    Address tasks[3];
    std::vector<RawFrame> frames[3];
    std::uint64_t numbers[3] = {2, 1, 0};
    bool is_suspended[3] = {true, true, true};
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Three three(known.layout);
        test(three);
    }
}

TaskEdge held_by(TaskIndex holder, std::uint32_t depth) { return {kOrphan, holder, EdgeSource::kHeld, false, depth}; }

}  // namespace

TEST_CASE("task holders: a variable, or a container in one, holds the task") {
    for_each_layout([](Three& three) {
        const Address items[] = {three.builder.none(), three.tasks[kOrphan]};
        const Address cell = three.builder.object(32, three.builder.type("cell"));
        three.memory.put(cell + three.builder.layout().object.header_size, raw(three.tasks[kOrphan]));
        const Address dict = three.typed(three.builder.dict({{"task", three.tasks[kOrphan]}}), "dict");
        for (const Address held : {three.tasks[kOrphan], three.typed(three.builder.tuple(items), "tuple"), cell, dict,
                                   list_of(three.builder, {three.builder.none(), three.tasks[kOrphan]})}) {
            three.hold(kHolder, {{"x", three.builder.none()}}, {{"x", three.builder.none()}, {"kept", held}});
            CHECK(three.find() == std::vector{held_by(kHolder, 1)});
            three.hold(kHolder, {{"kept", held}}, {});
            CHECK(three.find() == std::vector{held_by(kHolder, 2)});
        }
    });
}

TEST_CASE("task holders: what several hold, runs, was made later or holds itself tells nothing") {
    for_each_layout([](Three& three) {
        const Three::Variables kept = {{"kept", three.tasks[kOrphan]}};
        three.hold(kHolder, {}, kept);
        REQUIRE(three.find().size() == 1);
        three.numbers[kHolder] = 3;
        CHECK(three.find().empty());
        three.numbers[kHolder] = 0;
        three.is_suspended[kHolder] = false;
        CHECK(three.find().empty());
        three.is_suspended[kHolder] = true;
        three.hold(kOther, kept, {});
        CHECK(three.find().empty());
        three.hold(kHolder, {}, {});
        three.hold(kOther, {}, {});
        three.hold(kOrphan, {}, kept);
        CHECK(three.find().empty());
    });
}

TEST_CASE("task holders: containers that lie, or hold themselves, are passed over") {
    for_each_layout([](Three& three) {
        const std::uint32_t header = three.builder.layout().object.header_size;
        const Address endless = list_of(three.builder, {three.tasks[kOrphan]});
        three.memory.put(endless + header, 1ULL << 40U);
        const Address nowhere = list_of(three.builder, {three.tasks[kOrphan]});
        three.memory.put(nowhere + header + 8, 0x7e0000000000ULL);
        const Address of_other_type = three.typed(list_of(three.builder, {three.tasks[kOrphan]}), "deque");
        const Address itself = list_of(three.builder, {kNullAddress});
        const auto array = read_pointer(three.memory, itself + header + 8);
        three.memory.put(*array, raw(itself));
        for (const Address held : {endless, nowhere, of_other_type, itself, kNullAddress, Address{12345}, Address{0x7e0000000000}}) {
            three.hold(kHolder, {}, {{"kept", held}});
            CHECK(three.find().empty());
        }
        // Lists within lists are not looked into, and more items than that are not read.
        three.hold(kHolder, {}, {{"kept", list_of(three.builder, {list_of(three.builder, {three.tasks[kOrphan]})})}});
        CHECK(three.find().empty());
        three.hold(kHolder, {}, {{"kept", list_of(three.builder, std::vector<Address>(257, three.tasks[kOrphan]))}});
        CHECK(three.find().empty());
    });
}

TEST_CASE("task holders: how deep a group was opened") {
    for_each_layout([](Three& three) {
        const Address group = three.builder.object(64, three.builder.type("Nursery"));
        three.hold(kHolder, {{"x", three.builder.none()}}, {{"group", group}});
        CHECK(three.holders.depth_of(three.memory, three.frames[kHolder], group) == 1);
        three.hold(kHolder, {{"group", group}}, {});
        CHECK(three.holders.depth_of(three.memory, three.frames[kHolder], group) == 2);
        CHECK(three.holders.depth_of(three.memory, three.frames[kOther], group) == 1);
        CHECK(three.holders.depth_of(three.memory, {}, group) == 1);
    });
}
