// SPDX-License-Identifier: Apache-2.0
//
// Lists of interpreters and threads out of a fake runtime of every layout, torn and hostile ones, too; and
// who holds the GIL, by each way in which a version tells it.
#include "python/interpreters.h"

#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct Process {
    explicit Process(const Layout& layout) : builder(memory, layout) {}

    Address thread(Address interpreter, std::uint64_t number) {
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = interpreter;
        spec.thread_id = 0x7f0000000000 + number * 0x1000;
        spec.native_id = 100 + number;
        spec.id = number;
        return builder.thread(spec);
    }
    ThreadList read(Address runtime) { return read_thread_list(memory, builder.layout(), runtime); }

    FakeMemory memory;
    ProcessBuilder builder;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Process process(known.layout);
        test(process);
    }
}

std::vector<Address> addresses(const ThreadList& list) {
    std::vector<Address> all;
    for (const ThreadState& thread : list.threads) all.push_back(thread.address);
    return all;
}

}  // namespace

TEST_CASE("interpreters: all threads of one interpreter, with what they say of themselves") {
    for_each_layout([](Process& process) {
        const Address interpreter = process.builder.interpreter(0);
        const Address main = process.thread(interpreter, 1);
        const Address second = process.thread(interpreter, 2);
        process.builder.set_threads(interpreter, {second, main});
        const ThreadList list = process.read(process.builder.runtime({interpreter}));
        CHECK(list.broken_lists == 0);
        REQUIRE(addresses(list) == std::vector{second, main});
        CHECK(list.threads[0].pthread == 0x7f0000002000);
        CHECK(list.threads[0].interpreter == interpreter);
        const bool has_native = has(process.builder.layout().thread.native_thread_id);
        CHECK(list.threads[0].native_thread_id == (has_native ? 102 : 0));
        CHECK_FALSE(list.threads[0].is_main);
        CHECK(list.threads[1].is_main);
    });
}

TEST_CASE("interpreters: threads of several interpreters, each with its own") {
    for_each_layout([](Process& process) {
        const Address main = process.builder.interpreter(0);
        const Address sub = process.builder.interpreter(1);
        const Address empty = process.builder.interpreter(2);
        const Address a = process.thread(main, 1);
        const Address b = process.thread(sub, 2);
        const Address c = process.thread(sub, 3);
        process.builder.set_threads(main, {a});
        process.builder.set_threads(sub, {c, b});
        const ThreadList list = process.read(process.builder.runtime({empty, sub, main}));
        CHECK(list.broken_lists == 0);
        REQUIRE(list.interpreters.size() == 3);
        CHECK(list.interpreters[0].id == 2);
        CHECK(list.interpreters[2].address == main);
        CHECK(addresses(list) == std::vector{c, b, a});
        CHECK(list.threads[1].is_main);
        CHECK(list.threads[2].interpreter == main);
    });
}

TEST_CASE("interpreters: none is no error") {
    for_each_layout([](Process& process) {
        const ThreadList list = process.read(process.builder.runtime({}));
        CHECK(list.interpreters.empty());
        CHECK(list.broken_lists == 0);
    });
}

TEST_CASE("interpreters: a cycle of threads ends its list, is counted, and spoils no other") {
    for_each_layout([](Process& process) {
        const Address main = process.builder.interpreter(0);
        const Address sub = process.builder.interpreter(1);
        const Address a = process.thread(main, 1);
        const Address b = process.thread(sub, 2);
        const Address c = process.thread(sub, 3);
        process.builder.set_threads(main, {a});
        process.builder.set_threads(sub, {c, b});
        process.builder.put_field(b, process.builder.layout().thread.next, raw(c));
        const ThreadList list = process.read(process.builder.runtime({sub, main}));
        CHECK(list.broken_lists == 1);
        CHECK(addresses(list) == std::vector{c, b, a});
    });
}

TEST_CASE("interpreters: a broken interpreter does not spoil the others") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        const Address main = process.builder.interpreter(0);
        const Address sub = process.builder.interpreter(1);
        const Address a = process.thread(main, 1);
        const Address b = process.thread(sub, 2);
        process.builder.set_threads(main, {a});
        process.builder.set_threads(sub, {b});
        const Address runtime = process.builder.runtime({sub, main});
        const auto expect_main_alone = [&] {
            const ThreadList list = process.read(runtime);
            CHECK(list.broken_lists == 1);
            CHECK(addresses(list) == std::vector{a});
        };
        process.builder.put_field(b, layout.thread.interp, raw(main));  // its thread belongs to another
        expect_main_alone();
        process.builder.put_field(sub, layout.interpreter.threads_head, 0x600000000000);  // it begins nowhere
        expect_main_alone();
        process.builder.put_field(sub, layout.interpreter.threads_head, 0x7f1000000001);  // at no pointer
        expect_main_alone();
    });
}

TEST_CASE("interpreters: a thread that vanishes from the middle keeps those before it") {
    for_each_layout([](Process& process) {
        const Address interpreter = process.builder.interpreter(0);
        const Address a = process.thread(interpreter, 1);
        const Address b = process.thread(interpreter, 2);
        const Address c = process.thread(interpreter, 3);
        process.builder.set_threads(interpreter, {c, b, a});
        process.memory.unmap(b, 64);
        const ThreadList list = process.read(process.builder.runtime({interpreter}));
        CHECK(list.broken_lists == 1);
        CHECK(addresses(list) == std::vector{c});
    });
}

TEST_CASE("interpreters: a cycle of interpreters ends") {
    for_each_layout([](Process& process) {
        const Address main = process.builder.interpreter(0);
        const Address sub = process.builder.interpreter(1);
        const Address runtime = process.builder.runtime({sub, main});
        process.builder.put_field(main, process.builder.layout().interpreter.next, raw(sub));
        const ThreadList list = process.read(runtime);
        CHECK(list.interpreters.size() == 2);
        CHECK(list.broken_lists == 1);
    });
}

TEST_CASE("interpreters: a list that can't be read to its end is counted") {
    for_each_layout([](Process& process) {
        const Address main = process.builder.interpreter(0);
        const Address sub = process.builder.interpreter(1);
        const Address a = process.thread(main, 1);
        process.builder.set_threads(main, {a});
        const Address runtime = process.builder.runtime({sub, main});
        process.builder.put_field(sub, process.builder.layout().interpreter.next, 0x600000000000);
        const ThreadList list = process.read(runtime);
        CHECK(list.broken_lists == 1);
        CHECK(list.interpreters.size() == 1);
    });
}

TEST_CASE("interpreters: any read may fail, and nothing worse follows") {
    for_each_layout([](Process& process) {
        const Address interpreter = process.builder.interpreter(0);
        const Address a = process.thread(interpreter, 1);
        const Address b = process.thread(interpreter, 2);
        process.builder.set_threads(interpreter, {b, a});
        const Address runtime = process.builder.runtime({interpreter});
        process.memory.reset_counts();
        (void)process.read(runtime);
        const std::size_t reads = process.memory.reads();
        for (std::size_t bad = 1; bad <= reads; ++bad) {
            process.memory.fail_at(bad);
            const ThreadList list = process.read(runtime);
            CHECK(list.threads.size() <= 2);
            for (const ThreadState& thread : list.threads) CHECK((thread.address == a || thread.address == b));
        }
    });
}

TEST_CASE("interpreters: the GIL's holder, as the version tells it") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        const Address interpreter = process.builder.interpreter(0);
        const Address holder = process.thread(interpreter, 1);
        const Address other = process.thread(interpreter, 2);
        process.builder.set_threads(interpreter, {other, holder});
        const Address runtime = process.builder.runtime({interpreter});
        const auto holds = [&](Address thread) {
            const GilFacts facts = read_gil_facts(process.memory, layout, runtime, interpreter);
            std::vector<std::byte> bytes(layout.thread.size);
            REQUIRE(read_bytes(process.memory, thread, bytes));
            return thread_holds_gil(layout, facts, thread, bytes.data());
        };
        process.builder.set_gil(runtime, interpreter, kNullAddress);
        CHECK_FALSE(holds(holder));
        CHECK_FALSE(holds(other));
        process.builder.set_gil(runtime, interpreter, holder);
        process.builder.put_field(holder, layout.thread.status, layout.thread.holds_gil_bit, 4);
        process.builder.put_field(holder, layout.thread.holds_gil, 1, 4);
        CHECK(holds(holder));
        CHECK_FALSE(holds(other));
    });
}

TEST_CASE("interpreters: a free-threaded build has a GIL only where it is enabled") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        if (!layout.free_threaded) return;
        const Address interpreter = process.builder.interpreter(0);
        const Address thread = process.thread(interpreter, 1);
        const Address runtime = process.builder.runtime({interpreter});
        process.builder.set_gil(runtime, interpreter, thread);
        CHECK(read_gil_facts(process.memory, layout, runtime, interpreter).has_gil);
        process.builder.put_field(interpreter + static_cast<std::uint64_t>(layout.interpreter.own_gil), layout.gil.enabled, 0, 4);
        CHECK_FALSE(read_gil_facts(process.memory, layout, runtime, interpreter).has_gil);
    });
}

TEST_CASE("interpreters: a stale holder of an unlocked GIL holds nothing") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        if (!has(layout.interpreter.own_gil)) return;
        const Address interpreter = process.builder.interpreter(0);
        const Address thread = process.thread(interpreter, 1);
        const Address runtime = process.builder.runtime({interpreter});
        process.builder.set_gil(runtime, interpreter, thread);
        const Address gil = interpreter + static_cast<std::uint64_t>(layout.interpreter.own_gil);
        process.builder.put_field(gil, layout.gil.locked, 0, 4);
        CHECK(read_gil_facts(process.memory, layout, runtime, interpreter).holder == kNullAddress);
        process.builder.put_field(gil, layout.gil.locked, 0xffffffff, 4);  // not made yet
        CHECK(read_gil_facts(process.memory, layout, runtime, interpreter).holder == kNullAddress);
    });
}

TEST_CASE("interpreters: waiting for the GIL is told by where a futex lies") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        const Address interpreter = process.builder.interpreter(0);
        const Address runtime = process.builder.runtime({interpreter});
        process.builder.set_gil(runtime, interpreter, kNullAddress);
        const GilFacts facts = read_gil_facts(process.memory, layout, runtime, interpreter);
        const Address holder_field = has(layout.interpreter.own_gil)
                                         ? interpreter + static_cast<std::uint64_t>(layout.interpreter.own_gil + layout.gil.last_holder)
                                         : runtime + static_cast<std::uint64_t>(layout.runtime.gil_last_holder);
        CHECK(is_within(holder_field, facts.gil_begin, facts.gil_end));
        CHECK_FALSE(is_within(interpreter, facts.gil_begin, facts.gil_end));
    });
}

TEST_CASE("interpreters: the collector's flag, wherever the version keeps it") {
    for_each_layout([](Process& process) {
        const Layout& layout = process.builder.layout();
        const Address interpreter = process.builder.interpreter(0);
        const Address runtime = process.builder.runtime({interpreter});
        CHECK_FALSE(read_gil_facts(process.memory, layout, runtime, interpreter).is_collecting);
        process.builder.put_field(runtime, layout.runtime.gc_collecting, 1, 4);
        process.builder.put_field(interpreter, layout.interpreter.gc_collecting, 1, 4);
        CHECK(read_gil_facts(process.memory, layout, runtime, interpreter).is_collecting);
    });
}
