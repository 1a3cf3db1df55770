// SPDX-License-Identifier: Apache-2.0
//
// Snapshots with reads that fail, as those of a moving or dying target do. Whatever can't be read, what is
// shown is true: a stack without a marker is the program's own, one with a marker has no frame that does not
// stand in it, and a thread that is missing is counted.
#include "replay/told.h"

#include "sample/sampler.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;

namespace {

// Faults tried for each snapshot and kind; they lie evenly over all reads.
constexpr std::uint64_t kTries = 20;
constexpr std::uint64_t kTicks = 4;

void judge_thread(const DumpThread& thread, const Stored& stored) {
    INFO("thread " << thread.native_id << " " << thread.name << text_of(thread.frames));
    const bool is_marked = std::any_of(thread.frames.begin(), thread.frames.end(), is_marker);
    const auto fits = [&](const ToldThread& told) {
        return is_marked ? is_part_of(thread.frames, told.frames)
                         : std::equal(thread.frames.begin(), thread.frames.end(), told.frames.begin(), told.frames.end(), is_same);
    };
    if (thread.native_id == 0) {  // whose it is could not be told
        CHECK(std::any_of(stored.threads.begin(), stored.threads.end(), [&](const auto& told) { return fits(told.second); }));
        return;
    }
    const auto told = stored.threads.find(thread.native_id);
    REQUIRE(told != stored.threads.end());
    CHECK(fits(told->second));
}

void judge(const Dump& dump, const Stored& stored) {
    for (const DumpThread& thread : dump.threads) judge_thread(thread, stored);
    CHECK(dump.threads.size() <= stored.threads.size());
    CHECK((dump.threads.size() == stored.threads.size() || dump.broken_lists > 0 || dump.unreadable_threads > 0));
}

// Attaches and dumps under the plan; how many reads that took.
std::uint64_t dump_under(const FaultPlan& plan, const Stored& stored) {
    stored.target->inject(plan);
    const auto process = PythonProcess::attach(*stored.target);
    if (!process) {
        CHECK_FALSE(process.error().message.empty());
        return stored.target->reads();
    }
    auto attached = *process;
    const auto dump = take_dump(*stored.target, attached, {});
    REQUIRE(dump);
    judge(*dump, stored);
    return stored.target->reads();
}

void for_each_place(const Stored& stored, const std::function<void(std::uint64_t read)>& test) {
    const std::uint64_t reads = dump_under({}, stored);
    const std::uint64_t step = std::max<std::uint64_t>(1, reads / kTries);
    for (std::uint64_t read = 1; read <= reads; read += step) test(read);
}

void for_some_pages(const Stored& stored, const std::function<void(const FaultPlan& plan)>& test) {
    const std::size_t step = std::max<std::size_t>(1, stored.pages.size() / kTries);
    for (std::size_t i = 0; i < stored.pages.size(); i += step) {
        INFO(stored.build << ", page " << fmt::format("{:x}", raw(stored.pages[i])));
        FaultPlan plan;
        plan.gaps = {{stored.pages[i], stored.pages[i] + 4096}};
        test(plan);
    }
}

struct Kept final : Sampler::Sink {
    void add_thread(const ProfiledThread& thread) override { threads.push_back(thread); }
    void name_thread(ThreadIndex, const std::string&) override {}
    void add_sample(const SampleRecord& record) override { records.push_back(record); }
    std::vector<ProfiledThread> threads;
    std::vector<SampleRecord> records;
};

std::vector<DumpFrame> frames_of(const StackTable& stacks, StackId stack) {
    std::vector<DumpFrame> frames;
    for (; stack != kRootStack; stack = stacks.node(stack).parent) {
        const Frame& frame = stacks.frame(stacks.node(stack).frame);
        frames.push_back({frame.kind, std::string(stacks.string(frame.name)), std::string(stacks.string(frame.file)), frame.line});
    }
    return frames;
}

// Samples all threads under a plan that begins when the process is known; the samples taken.
std::uint64_t sample_under(const FaultPlan& plan, const Stored& stored) {
    stored.target->inject({});
    auto process = PythonProcess::attach(*stored.target);
    REQUIRE(process);
    stored.target->inject(plan);
    StackTable stacks;
    Kept kept;
    SamplerOptions options;
    options.which = WhichThreads::kAll;
    options.name_within = std::chrono::hours(1);
    Sampler sampler(*stored.target, *process, stacks, options, kept);
    auto now = 1ms;
    for (std::uint64_t tick = 0; tick < kTicks; ++tick) sampler.tick(now += 1ms, 1ms);
    sampler.finish(now);
    std::uint64_t samples = 0;
    for (const SampleRecord& record : kept.records) {
        samples += record.samples;
        const ProfiledThread& thread = kept.threads.at(record.thread);
        judge_thread({thread.native_id, thread.name, {}, {}, {}, frames_of(stacks, record.stack)}, stored);
    }
    // Whatever was not taken is counted.
    const RunFigures figures = sampler.figures();
    CHECK(figures.samples + figures.reused == samples);
    CHECK((samples + figures.refused + figures.unknown == kTicks * stored.threads.size() || figures.errors > 0));
    return samples;
}

}  // namespace

TEST_CASE("replay: reads that fail, one or several, cost a dump no truth") {
    for (const Stored& stored : stored_snapshots()) {
        const auto test = [&](std::uint64_t read, std::uint64_t count, ReadFault fault, std::size_t complete) {
            INFO(stored.build << ", reads from " << read << " on: " << count << " fail behind range " << complete);
            FaultPlan plan;
            plan.bad_read = read;
            plan.bad_count = count;
            plan.fault = fault;
            plan.complete = complete;
            dump_under(plan, stored);
        };
        for_each_place(stored, [&](std::uint64_t read) {
            test(read, 1, ReadFault::kUnmapped, 0);
            test(read, 1, ReadFault::kUnmapped, 1);
            test(read, 20, ReadFault::kUnmapped, 0);
            test(read, ~std::uint64_t{0}, ReadFault::kGone, 0);
        });
    }
}

TEST_CASE("replay: a page that is not there costs a dump no truth") {
    for (const Stored& stored : stored_snapshots()) {
        for_some_pages(stored, [&](const FaultPlan& plan) { dump_under(plan, stored); });
    }
}

// What is overwritten can say anything, so nothing is claimed of the names; but the answer comes.
TEST_CASE("replay: bytes that were overwritten end in an answer") {
    for (const Stored& stored : stored_snapshots()) {
        for (unsigned seed = 0; seed < 40; ++seed) {
            INFO(stored.build << ", seed " << seed);
            std::mt19937 random(seed);
            FaultPlan plan;
            plan.distort = [&](Address, std::span<std::byte> bytes) {
                if (bytes.empty() || random() % 64 != 0) return;
                const std::size_t at = random() % bytes.size();
                const std::size_t size = std::min<std::size_t>(bytes.size() - at, 8);
                std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, std::byte{random() % 2 == 0 ? std::uint8_t{0} : std::uint8_t{0xff}});
            };
            stored.target->inject(plan);
            auto process = PythonProcess::attach(*stored.target);
            if (!process) continue;
            const auto dump = take_dump(*stored.target, *process, {});
            CHECK((dump || !dump.error().message.empty()));
        }
    }
}

TEST_CASE("replay: samples of a snapshot are what the program said of itself") {
    for (const Stored& stored : stored_snapshots()) {
        INFO(stored.build);
        CHECK(sample_under({}, stored) == kTicks * stored.threads.size());
    }
}

TEST_CASE("replay: what can't be read costs a sample no truth") {
    for (const Stored& stored : stored_snapshots()) {
        for_each_place(stored, [&](std::uint64_t read) {
            INFO(stored.build << ", read " << read);
            FaultPlan plan;
            plan.bad_read = read;
            plan.bad_count = 1 + read % 3;
            plan.complete = read % 2;
            sample_under(plan, stored);
        });
        for_some_pages(stored, [&](const FaultPlan& plan) { sample_under(plan, stored); });
    }
}
