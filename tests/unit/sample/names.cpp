// SPDX-License-Identifier: Apache-2.0
//
// The sampler over a process that makes and drops code all the time, at one address: no sample bears a stale name, and
// few lose theirs.
#include "sampling.h"

#include <array>
#include <random>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct Churning : Sampling {
    explicit Churning(const KnownLayout& known) : Sampling(known) {
        for (const char* name : {"one", "two", "three"}) {
            const std::string text(name);
            strings.push_back(builder().str(std::u32string(text.begin(), text.end())));
        }
    }
    // The leaf's code is freed and becomes another one at its address.
    void replace_leaf(std::size_t name) {
        const Layout::Code& fields = python.layout().code;
        const Address leaf = code("one");
        builder().put_field(leaf, fields.name, raw(strings.at(name)));
        if (has(fields.qualname)) builder().put_field(leaf, fields.qualname, raw(strings.at(name)));
        if (has(fields.version)) builder().put_field(leaf, fields.version, ++version, 4);
        const Offset generation = python.layout().interpreter.code_object_generation;
        if (has(generation)) builder().put_field(python.interpreter, generation, ++version);
    }
    std::vector<Address> strings;
    std::uint64_t version = 1'000;
};

}  // namespace

TEST_CASE("names: code that came to the place of another between two samples has its own name in the second") {
    for_each_layout([](const KnownLayout& known) {
        Churning s(known);
        (void)s.add_thread(100, "one");
        s.start();
        for (int i = 0; i < 30; ++i) {
            s.replace_leaf(static_cast<std::size_t>(i % 3));
            s.ticks(1);
        }
        if (!s.on_data_stack()) {  // nothing tells whether a frame is live: what was replaced loses its samples
            for (const auto& [key, samples] : s.result()) {
                CHECK((key.second == "[unproved]" || samples <= 10));
            }
            return;
        }
        CHECK(s.result() == Sums{{{100, "main;one"}, 10}, {{100, "main;two"}, 10}, {{100, "main;three"}, 10}});
    });
}

TEST_CASE("names: a function that took the place of a shorter one is read anew, though no sample went through that") {
    for_each_layout([](const KnownLayout& known) {
        Churning s(known);
        const Sampling::Frames frames = s.frames("one");
        (void)s.python.add_thread({100, frames.leaf, frames.stack});
        s.start();
        s.ticks(3);
        s.replace_leaf(1);
        const Layout::Code& fields = s.python.layout().code;
        const Address leaf = s.code("one");
        if (has(fields.unit_count)) {  // the frame's instruction lies beyond the end of what is known
            s.builder().put_field(leaf, fields.unit_count, 200);
            s.builder().put_field(frames.leaf, s.python.layout().frame.instruction, raw(leaf) + static_cast<std::uint64_t>(fields.bytecode) + 300);
            s.ticks(3);
            CHECK(s.result() == Sums{{{100, "main;one"}, 3}, {{100, "main;two"}, 3}});
        }
    });
}

TEST_CASE("names: whenever a function is left, its code replaced and the next one called, no stale name is shown") {
    for_each_layout([](const KnownLayout& known) {
        Churning s(known);
        const Sampling::Frames frames = s.frames("one");
        const Address thread = s.python.add_thread({100, frames.leaf, frames.stack});
        s.start();
        std::mt19937 random(11);
        std::size_t name = 0;
        int step = 0;
        std::vector<std::string> running;  // by tick: no call begins in one in which another ended
        const std::array names{"main;one", "main;two", "main;three"};
        for (int tick = 0; tick < 1'200; ++tick) {
            running.emplace_back(names.at(name));
            auto ranges = random() % 24;  // after so many, the program takes one step
            s.python.target.fake().before_range = [&](FakeMemory&, const ReadRange&) {
                if (ranges-- != 0) return;
                switch (step++ % 3) {
                    case 0:
                        s.builder().set_leaf(thread, frames.root);
                        return;
                    case 1:
                        name = random() % 3;
                        s.replace_leaf(name);
                        return;
                    default:
                        s.builder().set_leaf(thread, frames.leaf);
                        running.back() = names.at(name);
                }
            };
            (void)s.tick();
        }
        s.python.target.fake().before_range = nullptr;
        int named = 0;
        int unproved = 0;
        for (const auto& [key, samples] : s.result()) {
            const bool is_call = std::find(names.begin(), names.end(), key.second) != names.end();
            (key.second.find("[unproved]") == std::string::npos ? named : unproved) += static_cast<int>(samples);
            INFO(key.second);
            CHECK((is_call || key.second == "main" || key.second.find("[unproved]") == 0));
        }
        for (const SampleRecord& record : s.seen.records) {
            const std::string text = s.text(record.stack);
            INFO(record.tick << " " << text);
            if (record.samples == 1 && text.find("main;") == 0) CHECK(text == running.at(record.tick));
        }
        CHECK(named + unproved == 1'200);
        if (s.on_data_stack()) CHECK(unproved < 120);
    });
}
