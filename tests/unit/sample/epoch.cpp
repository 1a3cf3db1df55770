// SPDX-License-Identifier: Apache-2.0
//
// Samples wait for their names: what is committed, what loses its names, and how long an epoch takes.
#include "sample/epoch.h"

#include "fixture.h"

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;

namespace {

struct EpochFixture : Fixture {
    explicit EpochFixture(const Layout& layout) : Fixture(layout), epoch(codes, stacks, stack_builder) {}

    // A sample of this stack, root first.
    void sample(const std::vector<Address>& root_first, std::chrono::nanoseconds when, ThreadIndex thread = 0,
                bool has_sure_names = false) {
        StackBuilder::Chain chain;
        REQUIRE(stack_builder.build(walk(root_first), chain) != StackBuilder::Built::kTorn);
        epoch.mark_used(chain);
        epoch.add(thread, stack_builder.stack_of(chain), stack_builder.path_of(chain), 10ms, when, {}, has_sure_names);
    }
    PathId prove(const std::vector<Address>& root_first) {
        StackBuilder::Chain chain;
        REQUIRE(stack_builder.build(walk(root_first), chain) != StackBuilder::Built::kTorn);
        epoch.mark_used(chain);
        stack_builder.prove(stack_builder.path_of(chain));
        return stack_builder.path_of(chain);
    }
    std::vector<SampleRecord> end(const std::uint64_t* generation = nullptr) {
        const auto records = epoch.end(now, generation).records;
        codes.reuse_retired();
        return records;
    }
    // The code is freed and becomes another at the same address.
    void replace(Address code_address, const std::string& name) {
        const std::uint64_t text = raw(builder.str(std::u32string(name.begin(), name.end())));
        builder.put_field(code_address, layout().code.name, text);
        builder.put_field(code_address, layout().code.qualname, text);
    }

    Epoch epoch;
    std::chrono::nanoseconds now = 1s;
};

}  // namespace

TEST_CASE("epoch: samples whose code stays are committed as they are") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address leaf = fixture.code("leaf");
        fixture.sample({main, leaf}, 10ms);
        fixture.sample({main}, 20ms);
        const auto records = fixture.end();
        REQUIRE(records.size() == 2);
        CHECK(fixture.text(records[0].stack) == "main;leaf");
        CHECK(fixture.text(records[1].stack) == "main");
        CHECK(records[0].weight == 10ms);
    });
}

TEST_CASE("epoch: a proof goes with the names that it went through, and with what continues it") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address other = fixture.code("other");
        const Address leaf = fixture.code("leaf");
        const PathId early = fixture.prove({main, leaf});
        fixture.epoch.tick(fixture.now);  // young code is checked at its end
        const PathId late = fixture.prove({other, leaf, main});
        const PathId kept = fixture.prove({other, main});
        fixture.replace(leaf, "elsewhere");
        CHECK(fixture.epoch.tick(fixture.now));
        CHECK(fixture.stacks.is_proved(late));
        (void)fixture.end();
        CHECK(fixture.stacks.is_proved(early));
        CHECK(fixture.stacks.is_proved(kept));
        CHECK_FALSE(fixture.stacks.is_proved(late));
        CHECK_FALSE(fixture.stacks.is_proved(fixture.stacks.parent_path(late)));
        CHECK(fixture.stacks.is_proved(fixture.stacks.parent_path(fixture.stacks.parent_path(late))));
        // What was proved in an earlier epoch was right then.
        fixture.replace(main, "another");
        (void)fixture.prove({other, main});
        (void)fixture.end();
        CHECK(fixture.stacks.is_proved(kept));
    });
}

TEST_CASE("epoch: a tick without the thread ends its run, whatever the clock says") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        fixture.sample({main}, 10ms);
        fixture.epoch.tick(fixture.now);
        fixture.sample({main}, 15ms);
        fixture.epoch.tick(fixture.now);
        fixture.epoch.tick(fixture.now);  // the thread slept
        fixture.sample({main}, 28ms);
        const auto records = fixture.end();
        REQUIRE(records.size() == 2);
        CHECK(records[0].samples == 2);
        CHECK(records[0].tick == 1);
        CHECK(records[1].samples == 1);
        CHECK(records[1].tick == 3);
    });
}

TEST_CASE("epoch: a sample through code that changed keeps its weight and loses its names") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address caller = fixture.code("caller");
        const Address leaf = fixture.code("leaf");
        fixture.sample({main, leaf}, 10ms);
        fixture.sample({main, caller, leaf}, 20ms);
        fixture.sample({main}, 30ms);
        fixture.replace(caller, "other");
        const Epoch::Result& result = fixture.epoch.end(fixture.now, nullptr);
        REQUIRE(result.records.size() == 3);
        CHECK(fixture.text(result.records[0].stack) == "main;leaf");
        CHECK(fixture.text(result.records[1].stack) == "[unproved]");
        CHECK(fixture.text(result.records[2].stack) == "main");
        CHECK(result.demoted == 1);
        CHECK(result.has_stale);
        CHECK(result.records[1].weight == 10ms);
    });
}

TEST_CASE("epoch: a sample whose names were sure keeps them, and takes no other one with it") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address leaf = fixture.code("leaf");
        fixture.sample({leaf}, 10ms, 0, true);
        fixture.sample({leaf}, 20ms, 0, false);
        fixture.replace(leaf, "elsewhere");
        const auto records = fixture.end();
        REQUIRE(records.size() == 2);
        CHECK(fixture.text(records[0].stack) == "leaf");
        CHECK(fixture.text(records[1].stack) == "[unproved]");
    });
}

TEST_CASE("epoch: after a change the new name is the one that is shown") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address leaf = fixture.code("leaf");
        fixture.sample({main, leaf}, 10ms);
        fixture.replace(leaf, "other");
        CHECK(fixture.text(fixture.end()[0].stack) == "[unproved]");
        fixture.sample({main, leaf}, 20ms);
        const auto records = fixture.end();
        REQUIRE(records.size() == 1);
        CHECK(fixture.text(records[0].stack) == "main;other");
    });
}

TEST_CASE("epoch: samples of code that runs once keep their names when it is freed soon after") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address once = fixture.code("once");
        const auto sample = [&] {
            fixture.now += 1ms;
            fixture.sample({main, once}, fixture.now);
            return fixture.epoch.tick(fixture.now);
        };
        for (int i = 0; i < 48; ++i) CHECK_FALSE(sample());
        fixture.replace(once, "other");
        int late = 1;  // samples that can't be told from those of the freed one any more
        while (!sample()) ++late;
        CHECK(late <= 4);
        std::uint32_t kept = 0;
        std::uint32_t lost = 0;
        for (const SampleRecord& record : fixture.end()) {
            const std::string text = fixture.text(record.stack);
            CHECK((text == "main;once" || text == "[unproved]"));
            (text == "[unproved]" ? lost : kept) += record.samples;
        }
        CHECK(kept + lost == 48 + static_cast<std::uint32_t>(late));
        CHECK(kept >= 45);
        CHECK(lost >= static_cast<std::uint32_t>(late));
    });
}

TEST_CASE("epoch: a check of the last epoch does not vouch for samples of this one") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        fixture.sample({main}, 10ms);
        (void)fixture.epoch.tick(10ms);
        (void)fixture.end();
        fixture.replace(main, "other");
        fixture.sample({main}, 20ms);
        CHECK(fixture.text(fixture.end()[0].stack) == "[unproved]");
    });
}

TEST_CASE("epoch: code that can't be read any more is not vouched for") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        fixture.sample({main}, 10ms);
        fixture.memory.unmap(main, known.layout.code.size);
        const auto records = fixture.end();
        REQUIRE(records.size() == 1);
        CHECK(fixture.text(records[0].stack) == "[unproved]");
    });
}

TEST_CASE("epoch: an unchanged generation vouches for what was checked under it, and costs no read") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.interpreter.code_object_generation)) return;
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address leaf = fixture.code("leaf");
        std::uint64_t generation = 7;
        fixture.sample({main}, 10ms);
        (void)fixture.end(&generation);
        fixture.memory.reset_counts();
        fixture.sample({main}, 20ms);
        CHECK(fixture.text(fixture.end(&generation)[0].stack) == "main");
        CHECK(fixture.memory.reads() == 0);
        fixture.sample({main, leaf}, 30ms);  // the leaf is new: it is checked
        fixture.replace(leaf, "other");
        CHECK(fixture.text(fixture.end(&generation)[0].stack) == "[unproved]");
        fixture.sample({main}, 40ms);
        fixture.replace(main, "other");  // some code was freed: everything is checked
        ++generation;
        CHECK(fixture.text(fixture.end(&generation)[0].stack) == "[unproved]");
    });
}

TEST_CASE("epoch: equal samples of one thread are one record, as long as nothing else of it lies between them") {
    EpochFixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    const Address leaf = fixture.code("leaf");
    fixture.sample({main}, 10ms);
    fixture.sample({main}, 22ms);  // jitter
    fixture.sample({main}, 28ms);
    fixture.sample({main}, 100ms);  // it slept
    fixture.sample({main}, 110ms, 1);
    fixture.sample({main}, 110ms);
    fixture.sample({main, leaf}, 118ms);
    fixture.sample({main}, 120ms, 1);
    fixture.sample({main}, 122ms);
    const auto records = fixture.end();
    REQUIRE(records.size() == 5);
    CHECK(records[0].samples == 3);
    CHECK(records[0].weight == 30ms);
    CHECK(records[0].when == 28ms);
    CHECK(records[1].samples == 2);
    CHECK(records[1].when == 110ms);
    CHECK(records[2].thread == 1);
    CHECK(records[2].samples == 2);
    CHECK(records[3].samples == 1);
    CHECK(records[4].samples == 1);
}

TEST_CASE("epoch: short at first and after a change, longer while all is well, never beyond 50 ms") {
    EpochFixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    const auto ticks_of_an_epoch = [&](std::chrono::nanoseconds period) {
        int ticks = 0;
        do {
            fixture.now += period;
            fixture.sample({main}, fixture.now);
            fixture.epoch.tick(fixture.now);
            ++ticks;
        } while (!fixture.epoch.is_due(fixture.now));
        (void)fixture.end();
        return ticks;
    };
    (void)ticks_of_an_epoch(1us);
    CHECK(ticks_of_an_epoch(1us) == 2);
    CHECK(ticks_of_an_epoch(1us) == 4);
    CHECK(ticks_of_an_epoch(1us) == 8);
    CHECK(ticks_of_an_epoch(1us) == 16);
    CHECK(ticks_of_an_epoch(100us) == 500);
    CHECK(ticks_of_an_epoch(10ms) == 5);
    CHECK(ticks_of_an_epoch(1s) == 1);
    fixture.sample({main}, fixture.now);
    fixture.replace(main, "other");
    (void)fixture.end();
    CHECK(ticks_of_an_epoch(1us) == 1);
    CHECK(ticks_of_an_epoch(1us) == 2);
}

TEST_CASE("epoch: samples that wait are bounded") {
    EpochFixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    for (int i = 0; i < 40; ++i) {
        fixture.epoch.tick(fixture.now);
        (void)fixture.end();
    }
    std::size_t waiting = 0;
    while (!fixture.epoch.is_due(fixture.now)) {
        fixture.sample({main}, fixture.now, static_cast<ThreadIndex>(waiting));
        REQUIRE(++waiting <= 1U << 14U);
    }
    CHECK(waiting > 1'000);
}

TEST_CASE("epoch: a sample that has lost its callers already is not counted twice when it loses its name") {
    for_each_layout([](const KnownLayout& known) {
        EpochFixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address leaf = fixture.code("leaf");
        StackBuilder::Chain chain;
        (void)fixture.stack_builder.build(fixture.walk({main, leaf}), chain);
        fixture.epoch.mark_used(chain);
        fixture.epoch.add(0, fixture.stack_builder.stack_of(chain), fixture.stack_builder.path_of(chain), 10ms, 10ms, {}, false, true);
        fixture.epoch.add(1, fixture.stack_builder.stack_of(chain), fixture.stack_builder.path_of(chain), 10ms, 10ms, {}, false, false);
        fixture.replace(leaf, "other");
        CHECK(fixture.epoch.end(fixture.now, nullptr).demoted == 1);
    });
}

// Where the target has ended there is nothing to compare with.
TEST_CASE("epoch: the last samples of a target keep their names, but for young code where code was being replaced") {
    for_each_layout([](const KnownLayout& known) {
        const auto last_sample = [&](bool replaces, std::chrono::nanoseconds age) {
            EpochFixture fixture(known.layout);
            const Address main = fixture.code("main");
            const Address leaf = fixture.code("leaf");
            const Address other = fixture.code("other");
            fixture.sample({main, leaf}, 10ms);
            fixture.sample({other}, 10ms, 1);
            fixture.epoch.tick(fixture.now);
            (void)fixture.end();
            fixture.now += age;
            if (replaces) {
                fixture.sample({other}, 10ms, 1);
                fixture.replace(other, "another");
                fixture.epoch.tick(fixture.now);
                (void)fixture.end();
            }
            fixture.sample({main, leaf}, 30ms);
            fixture.memory.end_process();
            fixture.epoch.tick(fixture.now += 10ms);
            const auto records = fixture.end();
            REQUIRE(records.size() == 1);
            return fixture.text(records[0].stack);
        };
        CHECK(last_sample(false, 100ms) == "main;leaf");
        CHECK(last_sample(true, 2s) == "main;leaf");
        CHECK(last_sample(true, 100ms) == "[unproved]");
    });
}
