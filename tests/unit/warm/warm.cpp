// SPDX-License-Identifier: Apache-2.0
//
// A warm sampler allocates nothing. A program of its own: operator new is replaced in all of it (count_new.cpp), and counts
// while a tick is under way. What happens once a second is left out: the lists of threads are read anew then.
#include "count_new.h"
#include "sample/sampler.h"

#include "unit/sample/sampling.h"

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;

namespace {

constexpr int kSecond = 1'000;  // ticks
constexpr int kWarm = 2 * kSecond + 10;
constexpr int kMeasured = 900;

// Of that many ticks after some seconds of them. `move` is called before each.
template <class Move>
std::size_t count_allocations(Sampling& s, Move move, int warm = kWarm) {
    s.seen.records.reserve(1U << 16);
    allocations = 0;
    for (int i = 0; i < warm + kMeasured; ++i) {
        move(i);
        is_counting = i >= warm;
        const Sampler::Outcome outcome = s.tick();
        is_counting = false;
        REQUIRE(outcome == Sampler::Outcome::kOk);
    }
    return allocations;
}

// main -> NAME -> NAME ..., one calling the next; the frames, root first.
std::vector<Address> frames_of(Sampling& s, ProcessBuilder::DataStack& stack, const std::vector<std::string>& names) {
    if (s.on_data_stack()) {
        stack = s.builder().data_stack();
        stack.top = stack.top + 8;
    }
    const Layout::Frame& fields = s.python.layout().frame;
    std::vector<Address> frames;
    for (const std::string& name : names) {
        ProcessBuilder::FrameSpec spec;
        spec.code = s.code(name);
        spec.index = 8;
        spec.is_entry = frames.empty();
        spec.stack = has(fields.stackpointer) ? 0 : -1;
        const bool has_shims = has(fields.owner_cstack) || has(fields.owner_interpreter);
        spec.back = !frames.empty() ? frames.back() : has_shims ? s.builder().shim(kNullAddress) : kNullAddress;
        frames.push_back(s.builder().any_frame(stack, spec));
    }
    return frames;
}

}  // namespace

TEST_CASE("warm: the count sees what it is to see") {
    allocations = 0;
    is_counting = true;
    auto made = std::make_unique<std::string>(100, 'x');
    is_counting = false;
    CHECK(made->size() == 100);
    CHECK(allocations == 2);
}

TEST_CASE("warm: no tick allocates while stacks stay as they are") {
    const WhichThreads which = GENERATE(WhichThreads::kRunning, WhichThreads::kAll, WhichThreads::kGilHolder);
    for_each_layout([&](const KnownLayout& known) {
        Sampling s(known);
        (void)s.add_thread(100, "busy", true);
        (void)s.add_thread(101, "busy_too");
        (void)s.add_thread(102, "asleep");
        s.python.target.block(102);
        s.start(which);
        CHECK(count_allocations(s, [](int) {}) == 0);
        CHECK(s.sampler->figures().truncated == 0);
    });
}

TEST_CASE("warm: no tick allocates while a thread goes from one known stack to another") {
    for_each_layout([](const KnownLayout& known) {
        Sampling s(known);
        ProcessBuilder::DataStack stack;
        const std::vector<Address> frames = frames_of(s, stack, {"main", "a", "b", "c", "d", "e"});
        const Address thread = s.python.add_thread({100, frames.back(), stack, true});
        s.start();
        const auto move = [&](int i) { s.builder().set_leaf(thread, frames[static_cast<std::size_t>(i) % frames.size()]); };
        CHECK(count_allocations(s, move) == 0);
        CHECK(s.sampler->figures().samples == kWarm + kMeasured);
    });
}

TEST_CASE("warm: no tick allocates while a program of few paths runs, generators and calls through C among them") {
    const std::uint64_t seed = GENERATE(1, 2, 3, 4);
    for_each_layout([&](const KnownLayout& known) {
        INFO("seed " << seed);
        Sampling s(known);
        ModelOptions options;
        options.functions = 4;
        options.colours = 1;
        options.recursion = options.exceptions = false;
        options.through_c = seed % 2 == 0;
        options.generators = seed > 2;
        TargetModel model(s.python, options, seed);
        s.start();
        // Buffers grow until they have held the most that a tick can miss.
        CHECK(count_allocations(s, [&](int) { model.run(300); }, kWarm + 4 * kSecond) == 0);
    });
}
