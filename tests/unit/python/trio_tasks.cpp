// SPDX-License-Identifier: Apache-2.0
//
// Tasks of a small trio on every layout: where slots stand is given; then objects that lie.
#include "python/trio_tasks.h"

#include "python/object_kinds.h"
#include "support/fake_memory.h"
#include "support/frame_holding.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// A parent with a nursery in which a child was started; above them trio's own task.
struct Trio {
    explicit Trio(const Layout& layout) : builder(memory, layout) {
        const auto header = static_cast<Offset>(layout.object.header_size);
        trio.task_type = builder.type("Task");
        trio.runner_type = builder.type("Runner");
        trio.task = {header, header + 8, header + 16, header + 24, header + 32, header + 40, header + 48};
        trio.runner_tasks = header;
        trio.runner_init_task = header + 8;
        none = builder.object(16, builder.type("NoneType"));
        no = builder.integer(0);
        yes = builder.integer(1);
        const Address boolean = builder.type("bool");
        builder.put_field(no, layout.object.type, raw(boolean));
        builder.put_field(yes, layout.object.type, raw(boolean));
        runner = builder.object(at(header) + 16, trio.runner_type);
        init = task(0, none, {});
        const Address mains = nursery(init, yes);
        parent = task(1, mains, {});
        own = nursery(parent, no);
        put(parent, trio.task.child_nurseries, list_of(builder, {own}));
        child = task(2, own, {});
        put(runner, trio.runner_init_task, init);
    }
    Address task(int number, Address in, const std::vector<Address>& nurseries) {
        const Address made = builder.object(builder.layout().object.header_size + 56, trio.task_type);
        const Address counter = builder.integer(number);
        builder.put_field(counter, builder.layout().object.type, raw(builder.type("int")));
        put(made, trio.task.coroutine, builder.object(64, builder.type("coroutine")));
        put(made, trio.task.name, builder.str("name"));
        put(made, trio.task.counter, counter);
        put(made, trio.task.runner, runner);
        put(made, trio.task.parent_nursery, in);
        put(made, trio.task.child_nurseries, list_of(builder, nurseries));
        put(made, trio.task.next_send_fn, none);
        return made;
    }
    Address nursery(Address opened_by, Address is_in_body) {
        return builder.instance("Nursery", {{"_parent_task", opened_by}, {"_nested_child_running", is_in_body}});
    }
    void put(Address object, Offset offset, Address value) { builder.put_field(object, offset, raw(value)); }
    bool read(Address one) { return read_trio_task(memory, builder.layout(), trio, one, found); }

    FakeMemory memory;
    ProcessBuilder builder;
    TrioModule trio;
    TrioTask found;
    Address none{}, no{}, yes{}, runner{}, init{}, parent{}, own{}, child{};
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Trio trio(known.layout);
        test(trio);
    }
}

}  // namespace

TEST_CASE("trio: a task is below the one that opened its nursery, which waits at that one's end") {
    for_each_layout([](Trio& trio) {
        REQUIRE(trio.read(trio.child));
        CHECK(trio.found.parent == trio.parent);
        CHECK(trio.found.nursery == trio.own);
        CHECK(trio.found.ends_nursery == kNullAddress);
        CHECK(trio.found.number == 3);
        CHECK(trio.found.runner == trio.runner);
        CHECK_FALSE(trio.found.is_scheduled);
        trio.put(trio.child, trio.trio.task.next_send_fn, trio.builder.object(32, trio.builder.type("builtin_function_or_method")));
        REQUIRE(trio.read(trio.child));
        CHECK(trio.found.is_scheduled);

        REQUIRE(trio.read(trio.parent));
        CHECK(trio.found.parent == kNullAddress);  // that is trio's own
        CHECK(trio.found.ends_nursery == trio.own);
        const Address open = trio.nursery(trio.parent, trio.yes);
        trio.put(trio.parent, trio.trio.task.child_nurseries, list_of(trio.builder, {trio.own, open}));
        REQUIRE(trio.read(trio.parent));
        CHECK(trio.found.ends_nursery == kNullAddress);  // it stands in the body of the inner one
    });
}

TEST_CASE("trio: tasks of another type, or without a runner, are none") {
    for_each_layout([](Trio& trio) {
        const Address wrong = trio.builder.object(64, trio.builder.type("Something"));
        for (const Address value : {wrong, kNullAddress, Address{12345}, Address{0x7e0000000000}}) {
            for (const Offset field : {trio.trio.task.runner, trio.trio.task.parent_nursery, trio.trio.task.child_nurseries}) {
                const auto kept = read_pointer(trio.memory, trio.child + at(field));
                trio.put(trio.child, field, value);
                CHECK_FALSE(trio.read(trio.child));
                trio.put(trio.child, field, *kept);
            }
            const Address stray = trio.nursery(value, trio.yes);
            trio.put(trio.child, trio.trio.task.parent_nursery, stray);
            CHECK_FALSE(trio.read(trio.child));
            trio.put(trio.child, trio.trio.task.parent_nursery, trio.own);
        }
        CHECK(trio.read(trio.child));
        CHECK_FALSE(trio.read(Address{0x7e0000000000}));
    });
}

TEST_CASE("trio: nurseries and tasks without end are not read") {
    for_each_layout([](Trio& trio) {
        const std::uint32_t header = trio.builder.layout().object.header_size;
        const Address list = list_of(trio.builder, {trio.own});
        trio.memory.put(list + header, 1ULL << 40U);
        trio.put(trio.child, trio.trio.task.child_nurseries, list);
        CHECK_FALSE(trio.read(trio.child));
        std::vector<Address> tasks;
        CHECK_FALSE(list_trio_tasks(trio.memory, trio.builder.layout(), trio.trio, trio.runner, 100, tasks));  // no set
        CHECK_FALSE(list_trio_tasks(trio.memory, trio.builder.layout(), trio.trio, trio.child, 100, tasks));   // no runner
        CHECK(tasks.empty());
        // A thread without frames, and one whose frame is its own caller.
        Address runner{};
        const Address interpreter = trio.builder.interpreter();
        ProcessBuilder::ThreadSpec of;
        of.interpreter = interpreter;
        const Address thread = trio.builder.thread(of);
        CHECK(find_trio_runner(trio.memory, trio.builder.layout(), trio.trio, thread, runner) != FrameSearch::kFound);
        ProcessBuilder::FrameSpec spec;
        spec.code = trio.builder.code({});
        const Address frame = trio.builder.heap_frame(spec);
        spec.back = frame;
        trio.builder.put_frame(frame, spec);
        trio.builder.set_leaf(thread, frame);
        CHECK(find_trio_runner(trio.memory, trio.builder.layout(), trio.trio, thread, runner) == FrameSearch::kUnknown);
    });
}
