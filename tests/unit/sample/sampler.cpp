// SPDX-License-Identifier: Apache-2.0
//
// The sampler over a made-up process: which threads it takes, what it reuses, what it counts, and that what
// happens to one thread costs no other its sample.
#include "base/clock.h"
#include "sample/sampler.h"

#include "sampling.h"

#include <set>
#include <utility>

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;

TEST_CASE("sampler: by default threads that run are sampled, and no others") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        (void)s.add_thread(101, "asleep");
        s.python.target.block(101);
        s.start();
        s.ticks(50);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 50}});
        for (const SampleRecord& record : s.seen.records) CHECK(s.stacks.is_proved(s.stacks.node(record.stack).path));
        CHECK(s.sampler->figures().samples == 50);
        CHECK(s.sampler->figures().reused == 0);
        CHECK(s.sampler->figures().refused == 0);
        CHECK(s.sampler->figures().ticks == 50);
    });
}

TEST_CASE("sampler: the first sample of a stack that stays is proved, by looking again at once") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        s.start();
        s.ticks(1);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 1}});
        CHECK(s.stacks.is_proved(s.stacks.node(s.seen.records.at(0).stack).path));
        CHECK(s.sampler->figures().samples == 1);
    });
}

// What is copied of a stack slows its thread down: whoever read the pointer then would meet it in what is slowed down.
TEST_CASE("sampler: before the pointer to a leaf nothing of its stack is read, whether its path is known or new") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        const Sampling::Frames made = s.frames("busy");
        const Address thread = s.python.add_thread({100, made.leaf, made.stack, false});
        s.start();
        bool has_pointer = false;
        int early = 0;
        int frames = 0;
        s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange& range) {
            const auto holds = [&](Address address) { return is_within(address, range.from, range.from + range.to.size()); };
            if (range.from == thread) has_pointer = true;
            if (!holds(made.leaf) && !holds(made.root)) return;
            ++frames;
            if (!has_pointer) ++early;
        };
        for (int tick = 0; tick < 40; ++tick) {
            if (tick % 10 == 5) s.builder().put_field(made.leaf, known.layout.frame.code, raw(s.code("new" + std::to_string(tick))));
            has_pointer = false;
            s.ticks(1);
        }
        CHECK(frames > 40);
        CHECK(early == 0);
        CHECK(s.sampler->figures().samples == 40);
    });
}

TEST_CASE("sampler: where the first reading is torn the second one dates the sample, and is counted") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        const Sampling::Frames made = s.frames("busy");
        const Address thread = s.python.add_thread({100, made.leaf, made.stack, false});
        s.start();
        s.ticks(10);
        CHECK(s.sampler->figures().second_readings == 0);
        int readings = 0;
        s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange& range) {
            if (range.from != thread) return;
            // Its caller is nowhere, until the second reading.
            s.builder().put_field(made.leaf, known.layout.frame.back, ++readings == 1 ? 0x600000000000 : raw(made.root));
        };
        s.ticks(1);
        s.python.target.fake().before_range = nullptr;
        CHECK(readings >= 2);
        CHECK(s.sampler->figures().second_readings == 1);
        CHECK(s.sampler->figures().inferred == 0);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 11}});
        CHECK(s.sampler->figures().truncated == 0);
    });
}

TEST_CASE("look budget: one for eight samples, rarer where they prove nothing, more as long as they prove something") {
    LookBudget budget;
    int at_once = 0;
    for (; budget.allows(); ++at_once) budget.spend();
    CHECK(at_once > 100);
    CHECK(budget.looks() == static_cast<std::uint64_t>(at_once));
    const auto looks_at = [&](int samples) {
        int looks = 0;
        for (int sample = 0; sample < samples; ++sample) {
            budget.note_sample();
            for (; budget.allows(); ++looks) budget.spend();
        }
        return looks;
    };
    budget.note_proof();
    (void)looks_at(8);
    CHECK(looks_at(800) == 100);
    for (int i = 0; i < 20; ++i) (void)looks_at(8'000);
    CHECK(looks_at(6'400) == 100);
    budget.note_proof();
    (void)looks_at(8);
    CHECK(looks_at(800) == 100);
    int proving = 0;
    for (int sample = 0; sample < 800; ++sample) {
        budget.note_sample();
        if (!budget.allows()) continue;
        budget.spend();
        budget.note_proof();
        ++proving;
    }
    CHECK(proving > 700);
}

TEST_CASE("sampler: as fast as can be, a sleeper is not looked at as long as nobody takes the GIL, for a short while") {
    for_each_layout([](const KnownLayout& known) {
        if (known.layout.gil_kind == GilKind::kNone) return;
        Sampling s(known);
        const Address busy = s.add_thread(100, "busy", true);
        const Address sleeper = s.add_thread(101, "asleep");
        s.python.target.block(101);
        s.start(WhichThreads::kAll, 0);
        s.period = 2us;
        s.ticks(50);
        const std::size_t before = s.python.target.looks();
        s.ticks(100);
        CHECK(s.python.target.looks() - before <= 20);  // at both threads
        // It wakes, takes the GIL, and sleeps again in another function; and again right before the read.
        for (const char* name : {"elsewhere", "back"}) (void)s.code(name);
        const auto move_on = [&](const std::string& name) {
            s.builder().take_gil(s.python.runtime, s.python.interpreter, sleeper);
            s.builder().set_leaf(sleeper, s.frames(name).leaf);
            s.python.target.wake(101);
            s.python.target.block(101);
            s.builder().take_gil(s.python.runtime, s.python.interpreter, busy);
        };
        move_on("elsewhere");
        s.ticks(10);
        bool is_due = true;
        s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange&) {
            if (std::exchange(is_due, false)) move_on("back");
        };
        s.ticks(10);
        s.python.target.fake().before_range = nullptr;
        const Sums sums = s.result();
        const auto samples_in = [&](const std::string& name) {
            std::uint32_t samples = 0;
            for (const auto& [key, count] : sums) samples += key.first == 101 && key.second.ends_with(name) ? count : 0;
            return samples;
        };
        CHECK(samples_in("asleep") == 150);
        CHECK(samples_in("elsewhere") == 10);
        CHECK(samples_in("back") == 10);
    });
}

TEST_CASE("sampler: with sleepers, a blocked thread is read once and its stack reused") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        (void)s.add_thread(101, "asleep");
        s.python.target.block(101);
        s.start(WhichThreads::kAll);
        s.ticks(50);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 50}, {{101, "main;asleep"}, 50}});
        CHECK(s.sampler->figures().samples == 51);
        CHECK(s.sampler->figures().reused == 49);
    });
}

TEST_CASE("sampler: a thread that woke and sleeps again is read again") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        const Address thread = s.add_thread(100, "first");
        s.python.target.block(100);
        s.start(WhichThreads::kAll);
        s.ticks(5);
        s.builder().set_leaf(thread, s.frames("second").leaf);
        s.python.target.wake(100);
        s.python.target.block(100);
        s.ticks(5);
        CHECK(s.result() == Sums{{{100, "main;first"}, 5}, {{100, "main;second"}, 5}});
    });
}

TEST_CASE("sampler: only the GIL's holder, and a blocked thread without it is not read again and again") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        if (known.layout.gil_kind == GilKind::kNone) return;
        (void)s.add_thread(101, "waits");
        (void)s.add_thread(102, "sleeps");
        (void)s.add_thread(100, "holder", true);
        s.python.target.block(102);
        s.start(WhichThreads::kGilHolder);
        s.ticks(20);
        s.python.target.fake().reset_counts();
        s.ticks(1);
        const std::size_t ranges = s.python.target.fake().ranges();
        s.python.target.block(101);
        s.ticks(2);
        s.python.target.fake().reset_counts();
        s.ticks(1);
        CHECK(s.python.target.fake().ranges() < ranges);
        CHECK(s.result() == Sums{{{100, "main;holder"}, 24}});
    });
}

TEST_CASE("sampler: each sample says whether its thread ran and held the GIL") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(101, "waits");
        (void)s.add_thread(100, "holder", true);
        s.python.target.block(101);
        s.start(WhichThreads::kAll);
        s.ticks(20);
        s.python.target.block(100);  // as in C code that keeps the GIL
        s.ticks(10);
        s.sampler->finish(s.now);
        std::uint32_t running = 0;
        std::uint32_t holding = 0;
        for (const SampleRecord& record : s.seen.records) {
            const bool is_holder = s.seen.threads.at(record.thread).native_id == 100;
            if (record.marks.is_running) running += record.samples;
            if (record.marks.holds_gil) holding += record.samples;
            CHECK((is_holder || record.marks == SampleMarks{}));
        }
        const bool has_gil = known.layout.gil_kind != GilKind::kNone;
        CHECK(running == 20);
        CHECK(holding == (has_gil ? 30 : 0));
        const RunFigures figures = s.sampler->figures();
        CHECK(figures.thread_looks == 60);
        CHECK(figures.running_looks == 20);
        CHECK(figures.gil_ticks == (has_gil ? 30 : 0));
    });
}

TEST_CASE("sampler: one call a tick, however many threads") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        for (pid_t tid = 100; tid < 108; ++tid) (void)s.add_thread(tid, "f" + std::to_string(tid));
        s.start();
        s.ticks(60);
        s.python.target.fake().reset_counts();
        s.ticks(20);
        // Twenty ticks, what ends the epochs, and the checks of code that is young.
        CHECK(s.python.target.fake().reads() <= 20 + 10);
    });
}

TEST_CASE("sampler: a new thread has its first sample at the first tick after it began") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "main_work");
        s.start();
        s.ticks(10);
        (void)s.add_thread(101, "new");
        s.ticks(10);
        const Sums result = s.result();
        CHECK(result.at({100, "main;main_work"}) == 20);
        CHECK(result.at({101, "main;new"}) == 10);
        CHECK(s.seen.threads.size() == 2);
    });
}

TEST_CASE("sampler: of threads that live for a period each none lacks its sample") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "stays");
        s.start();
        s.ticks(10);
        for (pid_t tid = 101; tid < 111; ++tid) {
            const Address thread = s.add_thread(tid, "short");
            s.ticks(1);
            s.python.remove_thread(thread);
            s.python.target.end_thread(tid);
            s.python.target.fake().unmap(thread, known.layout.thread.size);
        }
        std::uint32_t samples = 0;
        for (const auto& [whose, count] : s.result()) {
            if (whose.second != "main;stays") samples += count;
        }
        CHECK(samples == 10);
    });
}

TEST_CASE("sampler: a thread that ends is forgotten, and spoils nothing") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "stays");
        const Address ends = s.add_thread(101, "ends");
        s.start();
        s.ticks(10);
        s.python.remove_thread(ends);
        s.python.target.end_thread(101);
        s.python.target.fake().unmap(ends, known.layout.thread.size);
        s.ticks(10);
        const Sums result = s.result();
        CHECK(result.at({100, "main;stays"}) == 20);
        CHECK(result.at({101, "main;ends"}) == 10);
        CHECK(s.python.target.forgotten() == std::vector<pid_t>{101});
    });
}

TEST_CASE("sampler: a thread state that becomes another's is refused, counted, and found anew") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "stays");
        const Address thread = s.add_thread(101, "changes");
        s.start();
        s.ticks(5);
        s.builder().put_field(thread, known.layout.thread.thread_id, 0x123450);
        s.ticks(5);
        CHECK(s.sampler->figures().refused >= 1);
        CHECK(s.result().at({100, "main;stays"}) == 10);
    });
}

// Freed thread states and pthread structures come back at once; up to 3.10 nothing else tells the threads apart.
TEST_CASE("sampler: a thread at the place of one that ended is a thread of its own") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "stays");
        const Address thread = s.add_thread(101, "work");
        s.start();
        s.ticks(5);
        s.python.target.end_thread(101);
        s.python.target.thread(102);
        s.python.set_tid(thread, 102);
        s.ticks(10);
        const Sums result = s.result();
        CHECK(result.at({100, "main;stays"}) == 15);
        CHECK(result.at({101, "main;work"}) == 5);
        REQUIRE(result.count({102, "main;work"}) == 1);
        CHECK(result.at({102, "main;work"}) == 10);
    });
}

TEST_CASE("sampler: a freed generator frame costs no other thread its sample") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        if (!s.on_data_stack()) return;
        (void)s.add_thread(100, "first");
        const Sampling::Frames made = s.frames("unused");
        ProcessBuilder::FrameSpec spec;
        spec.code = s.code("gen");
        spec.index = 8;
        spec.back = made.root;
        spec.stack = has(known.layout.frame.stackpointer) ? 0 : -1;
        const auto generator = s.builder().generator(spec);
        const Address thread = s.python.add_thread({101, generator.frame, made.stack});
        (void)s.add_thread(102, "last");
        s.start();
        s.ticks(5);
        s.python.target.fake().unmap(generator.object, known.layout.frame.size + 256);
        s.builder().set_leaf(thread, made.root);
        s.ticks(5);
        const Sums result = s.result();
        CHECK(result.at({100, "main;first"}) == 10);
        CHECK(result.at({102, "main;last"}) == 10);
        CHECK(result.at({101, "main;gen"}) == 5);
    });
}

TEST_CASE("sampler: garbage collection is a marker above the frame that set it off") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        if (known.layout.free_threaded) return;
        (void)s.add_thread(101, "other");
        (void)s.add_thread(100, "collects", true);
        s.start();
        s.ticks(5);
        s.builder().put_field(s.python.runtime, known.layout.runtime.gc_collecting, 1, 4);
        s.builder().put_field(s.python.interpreter, known.layout.interpreter.gc_collecting, 1, 4);
        s.ticks(5);
        const Sums result = s.result();
        CHECK(result.at({100, "main;collects"}) == 5);
        CHECK(result.at({100, "main;collects;[gc]"}) == 5);
        CHECK(result.at({101, "main;other"}) == 10);
    });
}

TEST_CASE("sampler: a thread without frames gives no sample, and a blocked one is not read again") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        (void)s.python.add_thread({101, kNullAddress, {}});
        s.python.target.block(101);
        s.start(WhichThreads::kAll);
        s.ticks(10);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 10}});
        CHECK(s.sampler->figures().refused == 0);
    });
}

TEST_CASE("sampler: a thread that runs without a frame is counted, once a tick, where it is asked for") {
    const WhichThreads which = GENERATE(WhichThreads::kRunning, WhichThreads::kAll, WhichThreads::kGilHolder);
    for_each_layout([&](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        const Address begins = s.python.add_thread({101, kNullAddress, {}});
        s.start(which);
        s.ticks(6);
        CHECK(s.sampler->figures().frameless == (which == WhichThreads::kGilHolder ? 0 : 6));
        s.python.target.block(101);
        s.ticks(4);
        s.python.target.wake(101);
        s.builder().set_leaf(begins, s.frames("begun").leaf);
        s.ticks(3);
        CHECK(s.sampler->figures().frameless == (which == WhichThreads::kGilHolder ? 0 : 6));
        CHECK(s.sampler->figures().refused == 0);
    });
}

TEST_CASE("sampler: what is torn is kept by its leaf and counted as truncated") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        const Sampling::Frames made = s.frames("leaf");
        (void)s.python.add_thread({100, made.leaf, made.stack});
        s.builder().put_field(made.leaf, known.layout.frame.back, 0x600000000000);  // its caller is nowhere
        s.start();
        s.ticks(4);
        const Sums result = s.result();
        std::uint32_t sum = 0;
        for (const auto& [key, samples] : result) {
            CHECK(key.second.rfind("[unproved]", 0) == 0);
            sum += samples;
        }
        CHECK(sum == 4);
        // Those of which the leaf is sure are counted when the profile is made ready: its callers may follow by then.
        std::uint64_t open = s.sampler->figures().truncated;
        for (const SampleRecord& record : s.seen.records) {
            if (!s.stacks.is_proved(s.stacks.node(record.stack).path)) open += record.samples;
        }
        CHECK(open == 4);
        CHECK(s.sampler->figures().samples == 4);
    });
}

// Two callers that use one frame object in turn, each with a leaf of its own: a read that is interrupted twice sees the
// one's frame, the other's leaf, and the one's frame again.
TEST_CASE("sampler: a read that was interrupted proves nothing, though its copies agree") {
    const bool knows_time = GENERATE(true, false);
    for_each_layout([&](const KnownLayout& known) {
        if (known.layout.frame_root != FrameRoot::kThreadFrame) return;
        Sampling s(known);
        const Sampling::Frames made = s.frames("leaf", 16'384);
        (void)s.python.add_thread({100, made.leaf, made.stack});
        const Address codes[2][2] = {{s.code("main"), s.code("leaf")}, {s.code("other_main"), s.code("other_leaf")}};
        const auto turn_to = [&](int turn) {
            s.builder().put_field(made.root, known.layout.frame.code, raw(codes[turn][0]));
            s.builder().put_field(made.leaf, known.layout.frame.code, raw(codes[turn][1]));
        };
        s.start(WhichThreads::kRunning, 1'000, knows_time ? 20us : 1h);
        bool interrupts = false;
        int turn = 0;
        s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange& range) {
            const int wanted = is_within(made.root, range.from, range.from + range.to.size()) ? 0 : 1;
            if (!interrupts || wanted == turn) return;
            turn_to(turn = wanted);
            const auto until = monotonic_now() + 1ms;
            while (monotonic_now() < until) {}
        };
        for (int i = 0; i < 64; ++i) {
            interrupts = i % 8 == 7;
            turn_to(turn = i % 2);
            s.ticks(1);
        }
        s.sampler->finish(s.now);
        std::set<std::string> proved;
        for (const SampleRecord& record : s.seen.records) {
            if (s.stacks.is_proved(s.stacks.node(record.stack).path)) proved.insert(s.text(record.stack));
        }
        std::set<std::string> expected = {"main;leaf", "other_main;other_leaf"};
        if (!knows_time) expected.insert("main;other_leaf");
        CHECK(proved == expected);
    });
}

TEST_CASE("sampler: a thread of which the kernel tells nothing is left out and counted") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "known");
        (void)s.add_thread(101, "untold");
        s.python.target.thread(101).activity.kind = Activity::Kind::kUnknown;
        s.start();
        s.ticks(10);
        CHECK(s.sampler->figures().unknown == 10);
        const Sums result = s.result();
        CHECK(result.size() == 1);
        CHECK(result.at({100, "main;known"}) == 10);
    });
}

TEST_CASE("sampler: the end of the target ends the sampling") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        s.start();
        s.ticks(3);
        s.python.target.end();
        s.python.target.end_thread(100);
        s.python.target.fake().end_process();
        Sampler::Outcome outcome = Sampler::Outcome::kOk;
        for (int i = 0; i < 3 && outcome == Sampler::Outcome::kOk; ++i) outcome = s.tick();
        CHECK(outcome == Sampler::Outcome::kTargetEnded);
        (void)s.result();
    });
}

TEST_CASE("sampler: one interpreter that can't be read does not spoil the other") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        const Address broken = s.builder().interpreter(7);
        s.builder().put_field(broken, known.layout.interpreter.threads_head, 0x600000000000);
        s.builder().put_field(broken, known.layout.interpreter.next, raw(s.python.interpreter));
        s.builder().put_field(s.python.runtime, known.layout.runtime.interpreters_head, raw(broken));
        s.start();
        s.ticks(10);
        CHECK(s.result() == Sums{{{100, "main;busy"}, 10}});
        CHECK(s.sampler->figures().errors >= 1);
    });
}

TEST_CASE("sampler: weights are those of the ticks") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        s.start();
        (void)s.sampler->tick(s.now += 1ms, 1ms);
        (void)s.sampler->tick(s.now += 5ms, 5ms);  // four were late
        s.sampler->finish(s.now);
        std::chrono::nanoseconds sum{0};
        for (const SampleRecord& record : s.seen.records) sum += record.weight;
        CHECK(sum == 6ms);
    });
}

TEST_CASE("sampler: any read may fail, and no stack is shown that is not there") {
    for_each_layout([](const KnownLayout& known) {
        for (std::size_t bad = 1; bad <= 60; ++bad) {
            Sampling s(known);
            (void)s.add_thread(100, "a");
            (void)s.add_thread(101, "b");
            s.start(WhichThreads::kAll);
            s.python.target.fake().fail_at(bad);
            for (int i = 0; i < 6; ++i) (void)s.tick();
            for (const auto& [key, samples] : s.result()) {
                INFO("read " << bad << ", thread " << key.first << ": " << key.second);
                const std::string leaf = key.first == 101 ? "b" : "a";
                const bool is_real = key.second == "main;" + leaf || key.second.rfind("[unproved]", 0) == 0;
                CHECK((is_real || key.first == 0));
                CHECK(samples > 0);
            }
        }
    });
}

TEST_CASE("sampler: once warm, nothing is read of code that is known") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.interpreter.code_object_generation)) return;
        Sampling s(known);
        (void)s.add_thread(100, "busy");
        s.start();
        s.ticks(100);
        s.python.target.fake().reset_counts();
        s.ticks(200);
        // One call a tick; four ends of an epoch, each with one look at the generation (and names); checks of code
        // that is young.
        CHECK(s.python.target.fake().reads() <= 200 + 32);
    });
}
