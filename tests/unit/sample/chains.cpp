// SPDX-License-Identifier: Apache-2.0
//
// The sampler over a process of several interpreters: whose chains are joined, in which order, and that none are which
// never stood there together.
#include "sampling.h"

#include "sample/interpreter_entry.h"

#include <map>
#include <random>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr std::uint64_t kStackBytes = 0x4000;

// Two interpreters; threads have a C stack, on which their entries stand.
struct Interpreters : Sampling {
    explicit Interpreters(const KnownLayout& known) : Sampling(known) {
        inner = builder().interpreter(1);
        builder().put_field(inner, known.layout.interpreter.next, raw(python.interpreter));
        builder().put_field(python.runtime, known.layout.runtime.interpreters_head, raw(inner));
    }
    static bool knows(const KnownLayout& known) { return tells_entries(known.layout); }

    Address add_stack(bool is_main) {
        const Address begin = builder().allocate(kStackBytes);
        python.target.add_stack(begin, begin + kStackBytes, is_main);
        return begin;
    }
    // main -> NAME, entered at this place of a C stack.
    Frames entered(Address at, const std::string& leaf_name) {
        const Frames made = frames(leaf_name);
        const Layout::Frame& fields = python.layout().frame;
        if (!has(fields.owner_cstack) && !has(fields.owner_interpreter)) return made;
        ProcessBuilder::FrameSpec shim;
        shim.code = builder().none();
        shim.owner = has(fields.owner_interpreter) ? fields.owner_interpreter : fields.owner_cstack;
        shim.tag = has(fields.owner_interpreter) ? 1 : 0;
        builder().put_frame(at, shim);
        builder().put_field(made.root, fields.back, raw(at));
        return made;
    }
    void set_cframe(Address thread, Address at, Address leaf) {
        const Layout& layout = python.layout();
        if (!has(layout.thread.cframe)) return;
        builder().put_field(thread, layout.thread.cframe, raw(at));
        builder().put_field(at, layout.cframe.current_frame, raw(leaf));
    }
    Address add_outer(pid_t tid, Address entry, const std::string& leaf_name) {
        outer_frames = entered(entry, leaf_name);
        const Address thread = python.add_thread({tid, outer_frames.leaf, outer_frames.stack});
        outer_threads[tid] = thread;
        set_cframe(thread, entry, outer_frames.leaf);
        return thread;
    }
    // A thread state of the other interpreter; `names` is the thread that it names as its own.
    Address add_inner(pid_t names, Address entry, const std::string& leaf_name) {
        inner_frames = entered(entry, leaf_name);
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = inner;
        spec.leaf = inner_frames.leaf;
        spec.native_id = static_cast<std::uint64_t>(names);
        // Up to 3.10 the pthread is all that tells the thread's number.
        const bool is_numbered = has(python.layout().thread.native_thread_id);
        spec.thread_id = raw(is_numbered ? builder().allocate(64) : python.pthread_of(outer_threads.at(names)));
        spec.stack = inner_frames.stack;
        const Address thread = builder().thread(spec);
        set_cframe(thread, entry, inner_frames.leaf);
        builder().set_threads(inner, {thread});
        return thread;
    }
    [[nodiscard]] bool are_all_proved() const {
        for (const SampleRecord& record : seen.records) {
            if (!stacks.is_proved(stacks.node(record.stack).path)) return false;
        }
        return true;
    }

    Address inner{};
    Frames outer_frames;
    Frames inner_frames;
    std::map<pid_t, Address> outer_threads;
};

}  // namespace

TEST_CASE("chains: those of one thread are one stack, and it is sampled once") {
    for_each_layout([](const KnownLayout& known) {
        if (!Interpreters::knows(known)) return;
        for (const bool blocked : {false, true}) {
            Interpreters s(known);
            const Address stack = s.add_stack(true);
            (void)s.add_outer(100, stack + 0x3000, "call");
            (void)s.add_inner(100, stack + 0x2000, "inner");
            if (blocked) s.python.target.block(100);
            s.start(blocked ? WhichThreads::kAll : WhichThreads::kRunning);
            s.ticks(30);
            CHECK(s.result() == Sums{{{100, "main;call;main;inner"}, 30}});
            CHECK(s.are_all_proved());
            CHECK(s.sampler->figures().unknown == 0);
            if (blocked) CHECK(s.sampler->figures().reused == 29);
            CHECK(s.seen.threads.size() == 1);
        }
    });
}

TEST_CASE("chains: the C stack tells whose they are, not the thread that made them") {
    for_each_layout([](const KnownLayout& known) {
        if (!Interpreters::knows(known)) return;
        Interpreters s(known);
        const Address main_stack = s.add_stack(true);
        const Address other_stack = s.add_stack(false);
        (void)s.add_outer(100, main_stack + 0x3000, "waits");
        const Address other = s.add_outer(101, other_stack + 0x3000, "call");
        s.python.set_pthread(other, other_stack + (kStackBytes - 0x400), 101);
        // From 3.13 on a state is bound to the thread that runs it.
        (void)s.add_inner(known.layout.from_debug_offsets ? 101 : 100, other_stack + 0x2000, "inner");
        s.python.target.block(100);
        s.start();
        s.ticks(20);
        CHECK(s.result() == Sums{{{101, "main;call;main;inner"}, 20}});
        CHECK(s.are_all_proved());
    });
}

TEST_CASE("chains: of a stack that nobody's is, nothing is shown unless the state names its thread") {
    for_each_layout([](const KnownLayout& known) {
        if (!Interpreters::knows(known)) return;
        Interpreters s(known);
        const Address stack = s.add_stack(true);
        (void)s.add_outer(100, stack + 0x3000, "busy");
        s.python.target.thread(102);
        (void)s.add_inner(known.layout.from_debug_offsets ? 102 : 100, s.builder().allocate(64), "inner");
        s.start();
        s.ticks(10);
        Sums expected{{{100, "main;busy"}, 10}};
        if (known.layout.from_debug_offsets) expected[{102, "main;inner"}] = 10;
        CHECK(s.result() == expected);
        CHECK(s.sampler->figures().unknown == (known.layout.from_debug_offsets ? 0 : 10));
    });
}

TEST_CASE("chains: a thread that waits for the next tick below another interpreter is wanted as its runner is") {
    for_each_layout([](const KnownLayout& known) {
        if (!Interpreters::knows(known)) return;
        Interpreters s(known);
        const Address stack = s.add_stack(true);
        (void)s.add_outer(100, stack + 0x3000, "call");
        const Address inner = s.add_inner(100, stack + 0x2000, "inner");
        s.start();
        s.ticks(10);
        s.python.target.block(100);
        s.ticks(10);
        s.python.target.wake(100);
        s.builder().set_leaf(inner, kNullAddress);  // it has come back
        s.ticks(10);
        CHECK(s.result() == Sums{{{100, "main;call;main;inner"}, 10}, {{100, "main;call"}, 10}});
    });
}

TEST_CASE("chains: what never stood there together is never proved") {
    for_each_layout([](const KnownLayout& known) {
        if (!Interpreters::knows(known)) return;
        Interpreters s(known);
        const Address stack = s.add_stack(true);
        (void)s.add_outer(100, stack + 0x3000, "call_a");
        const Address inner = s.add_inner(100, stack + 0x2000, "inner_a");
        const Layout::Frame& fields = known.layout.frame;
        const auto set_code = [&](const Sampling::Frames& frames, const std::string& name) {
            ProcessBuilder::FrameSpec spec;
            spec.code = s.code(name);
            spec.back = frames.root;
            spec.index = 8;
            spec.stack = has(fields.stackpointer) ? 0 : -1;
            s.builder().put_frame(frames.leaf, spec);
        };
        for (const char* name : {"call_b", "inner_b"}) (void)s.code(name);
        s.start();
        // A call comes back, another one begins: a store before every other range that is read.
        std::size_t ranges = 0;
        std::size_t step = 0;
        std::mt19937 random(5);
        bool is_b = false;
        s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange&) {
            if (++ranges % 2 != 0 || (step == 0 && random() % 4 != 0)) return;
            switch (step++) {
                case 0:
                    s.builder().set_leaf(inner, kNullAddress);
                    return;
                case 1:
                    is_b = !is_b;
                    set_code(s.outer_frames, is_b ? "call_b" : "call_a");
                    return;
                case 2:
                    set_code(s.inner_frames, is_b ? "inner_b" : "inner_a");
                    return;
                default:
                    s.builder().set_leaf(inner, s.inner_frames.leaf);
                    step = 0;
            }
        };
        for (int i = 0; i < 1'000; ++i) (void)s.tick();
        s.python.target.fake().before_range = nullptr;
        int whole = 0;
        for (const auto& [key, samples] : s.result()) {
            (void)samples;
            whole += key.second == "main;call_a;main;inner_a" || key.second == "main;call_b;main;inner_b" ? 1 : 0;
        }
        CHECK(whole == 2);
        for (const SampleRecord& record : s.seen.records) {
            const std::string text = s.text(record.stack);
            const bool is_false = text.find("call_a;main;inner_b") != std::string::npos || text.find("call_b;main;inner_a") != std::string::npos;
            INFO(text);
            if (is_false) CHECK_FALSE(s.stacks.is_proved(s.stacks.node(record.stack).path));
        }
    });
}
