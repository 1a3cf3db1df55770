// SPDX-License-Identifier: Apache-2.0
//
// The measurement behind `watch`, on made-up samples: what is counted, what is said of it, and whether the errors
// cover what they claim.
#include "live/watch_report.h"
#include "live/watch_session.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

using namespace pyprof;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds kPeriod = 10ms;

SampleRecord record_of(StackId stack, std::uint64_t tick, nanoseconds weight = kPeriod, std::uint32_t samples = 1, ThreadIndex thread = 0) {
    SampleRecord record;
    record.stack = stack;
    record.thread = thread;
    record.samples = samples;
    record.weight = weight;
    record.when = kPeriod * static_cast<std::int64_t>(tick + 1);
    record.tick = tick;
    return record;
}

// A recording of a made-up process: frames root first, a sample a tick.
class Process {
public:
    explicit Process(WatchSession& session, pid_t pid = 7, nanoseconds began = 0ns) : session_(session) {
        ProfileFacts facts;
        facts.pid = pid;
        facts.python = "3.12.1";
        facts.working_directory = "/srv";
        facts.which_threads = "running";
        session_.begin(stacks, facts, began);
    }
    StackId stack(const std::vector<std::string>& names, bool proved = true) {
        StackId stack = kRootStack;
        PathId path = kRootPath;
        for (const std::string& name : names) {
            Frame frame;
            if (name.front() == '[') {
                frame.kind = FrameKind::kMarker;
                frame.name = stacks->intern_string(name);
            } else {
                const std::size_t colon = name.find(':');
                frame.file = stacks->intern_string("/srv/" + (colon == std::string::npos ? "app.py" : name.substr(0, colon)));
                frame.name = stacks->intern_string(colon == std::string::npos ? name : name.substr(colon + 1));
                frame.line = 1;
                path = stacks->intern_path(path, raw(frame.name) * 1000 + raw(frame.file));
            }
            stack = stacks->intern_child(stack, stacks->intern_frame(frame), path);
        }
        if (proved) stacks->prove(path);
        return stack;
    }
    void sample(StackId stack, ThreadIndex thread = 0, std::uint32_t samples = 1) {
        while (threads.size() <= thread) threads.push_back({100 + threads.size(), "T", threads.empty()});
        const std::uint64_t last = tick + samples - 1;
        session_.take(record_of(stack, last, kPeriod * samples, samples, thread), threads);
    }
    void sample(const std::vector<std::string>& names, std::uint32_t samples = 1) {
        sample(stack(names), 0, samples);
        tick += samples;
    }

    std::shared_ptr<StackTable> stacks = std::make_shared<StackTable>();
    std::vector<ProfiledThread> threads;
    std::uint64_t tick = 0;

private:
    WatchSession& session_;
};

const WatchEntry& entry(const WatchResults& results, const std::string& name) {
    for (const WatchEntry& each : results.entries) {
        if (each.name == name) return each;
    }
    FAIL("no entry " << name);
    return results.entries.front();
}

}  // namespace

TEST_CASE("watch session: own and total time, recursion once, first and last seen") {
    WatchSession session;
    REQUIRE(session.add("f"));
    REQUIRE(session.add("g"));
    Process process(session);
    process.sample({"main", "g"}, 10);
    process.sample({"main", "f", "g", "f"}, 3);
    process.sample({"main", "f"}, 2);
    process.sample({"main", "f", "[gc]"}, 1);
    process.sample({"main"}, 4);
    const WatchResults results = session.results();
    CHECK(results.samples == 20);
    CHECK(results.thread_time == 200ms);
    const WatchRow& f = *entry(results, "f").sum;
    CHECK(f.own.samples == 6);
    CHECK(f.total.samples == 6);
    CHECK(f.total.time == 60ms);
    CHECK(f.first == 100ms);
    CHECK(f.last == 160ms);
    const WatchRow& g = *entry(results, "g").sum;
    CHECK(g.own.samples == 10);
    CHECK(g.total.samples == 13);
    CHECK(g.first == 0ms);
    CHECK(g.last == 130ms);
    CHECK(f.label == "f (app.py)");
}

TEST_CASE("watch session: a name added late has its results from the beginning") {
    WatchSession session;
    Process process(session);
    process.sample({"main", "f"}, 5);
    REQUIRE(session.add("f").value());
    CHECK_FALSE(session.add("f").value());
    process.sample({"main", "f"}, 5);
    CHECK(entry(session.results(), "f").sum->own.samples == 10);
    CHECK(session.remove("f"));
    CHECK_FALSE(session.remove("f"));
    CHECK(session.results().entries.empty());
    REQUIRE(session.add("f").value());
    CHECK(entry(session.results(), "f").sum->own.samples == 10);
}

TEST_CASE("watch session: what was not seen has no number, and near misses") {
    WatchSession session;
    REQUIRE(session.add("rendre"));
    CHECK_FALSE(entry(session.results(), "rendre").sum);
    Process process(session);
    process.sample({"main", "render"});
    const WatchResults results = session.results();
    CHECK_FALSE(entry(results, "rendre").sum);
    CHECK(entry(results, "rendre").near_misses == std::vector<std::string>{"render (app.py)"});
}

TEST_CASE("watch session: a name that means several counts each sample once") {
    WatchSession session;
    REQUIRE(session.add("P.*"));
    Process process(session);
    process.sample({"main", "P.a", "P.b"}, 4);
    process.sample({"main", "P.a"}, 2);
    process.sample({"main"}, 2);
    const WatchResults results = session.results();
    const WatchEntry& all = entry(results, "P.*");
    CHECK(all.matches == 2);
    CHECK(all.sum->total.samples == 6);
    CHECK(all.sum->own.samples == 6);
    REQUIRE(all.functions.size() == 2);
    CHECK(all.functions[0].label == "P.a (app.py)");
    CHECK(all.functions[0].total.samples == 6);
    CHECK(all.functions[0].own.samples == 2);
    CHECK(all.functions[1].own.samples == 4);
}

TEST_CASE("watch session: of an unproved stack only the leaf counts, until it is proved") {
    WatchSession session;
    REQUIRE(session.add("f"));
    REQUIRE(session.add("g"));
    Process process(session);
    const StackId stack = process.stack({"main", "f", "g"}, false);
    process.sample(stack);
    process.tick = 1;
    process.sample(process.stack({"[unproved]", "g"}, false));
    WatchResults results = session.results();
    CHECK(results.unproved == 2);
    CHECK_FALSE(entry(results, "f").sum);
    CHECK(entry(results, "g").sum->own.samples == 2);
    process.stacks->prove(process.stacks->node(stack).path);
    results = session.results();
    CHECK(results.unproved == 1);
    CHECK(entry(results, "f").sum->total.samples == 1);
}

TEST_CASE("watch session: several recordings are added up, and reset forgets them") {
    WatchSession session;
    REQUIRE(session.add("f"));
    {
        Process first(session, 7, 100s);
        first.sample({"main", "f"}, 5);
    }
    Process second(session, 8, 110s);
    second.sample({"main", "f"}, 3);
    second.sample({"main"}, 2);
    WatchResults results = session.results();
    CHECK(results.processes.size() == 2);
    CHECK(results.samples == 10);
    CHECK(entry(results, "f").sum->total.samples == 8);
    CHECK(entry(results, "f").sum->first == 0s);
    CHECK(entry(results, "f").sum->last == 10s + 30ms);
    const auto profile = session.resolved();
    REQUIRE(profile);
    CHECK(profile->total_samples == 10);
    CHECK(profile->spans.size() >= 2);

    session.reset(110s + 50ms);
    CHECK(session.samples() == 0);
    CHECK_FALSE(entry(session.results(), "f").sum);
    second.sample({"main", "f"}, 2);
    results = session.results();
    CHECK(results.samples == 2);
    CHECK(entry(results, "f").sum->total.samples == 2);
    CHECK(entry(results, "f").sum->first == 0ms);
}

TEST_CASE("watch session: nothing at all is well") {
    WatchSession session;
    CHECK(session.results().samples == 0);
    CHECK_FALSE(session.resolved());
    CHECK(session.functions().empty());
    session.reset(1s);
    CHECK(results_text(session.results()) == "nothing was sampled yet\n");
}

TEST_CASE("watch report: golden table and JSON") {
    WatchSession session;
    for (const char* name : {"Page.*", "f", "odd", "rende"}) REQUIRE(session.add(name));
    Process process(session);
    for (int i = 0; i < 20; ++i) {
        process.sample({"main", "Page.a"}, 3);
        process.sample({"main", "f", "Page.\xE6\x97\xA5"}, 2);
        process.sample({"main", "f"}, 1);
        process.sample({"main", "render"}, 1);
    }
    process.sample({"\x1B[31m.odd"}, 1);
    RunFigures figures;
    figures.elapsed = 2s;
    figures.late = 3;
    session.update(process.threads, figures);
    const auto check_golden = [](const std::string& name, const std::string& text) {
        const std::string path = std::string(PYPROF_TEST_DIR) + "/golden/" + name;
        if (std::getenv("PYPROF_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
        std::ifstream file(path, std::ios::binary);
        const std::string wanted{std::istreambuf_iterator<char>(file), {}};
        CHECK(text == wanted);
    };
    check_golden("watch.txt", results_text(session.results()));
    check_golden("watch.json", results_json(session.results(), "results"));
}

TEST_CASE("watch report: as many digits as the error allows") {
    CHECK(with_error({1, 1234567us, 0.0412}) == "1.235 ± 0.041");
    CHECK(with_error({1, 1234s, 12.3}) == "1234 ± 12");
    CHECK(with_error({1, 1234s, 1.23}) == "1234.0 ± 1.2");
    CHECK(with_error({1, 12us, 1e-9}) == "0.000012 ± 0.000000");
    CHECK(with_error({1, 1500ms, 0}) == "1.500");
}

namespace {

// Samples of a program that is in the function while in_function(time), drawn as the pacer draws them. Returns how many of
// the runs had the true time within one, and within 1.96 errors.
struct Coverage {
    double one = 0;
    double two = 0;
};

Coverage coverage(int runs, int ticks, double late_share, const std::function<bool(double, double)>& in_function, double truth_s) {
    std::mt19937_64 random(20);
    std::uniform_real_distribution<double> fraction(0, 1);
    Coverage covered;
    for (int run = 0; run < runs; ++run) {
        const double phase = fraction(random);
        SampleSeries series;
        Profile::Weight sum;
        std::uint64_t tick = 0;
        int skipped = 0;
        for (int period = 0; period < ticks; ++period) {
            if (fraction(random) < late_share && period + 1 < ticks) {
                ++skipped;
                continue;
            }
            const double moment = (period + fraction(random)) * 0.01;
            const nanoseconds weight = kPeriod * (skipped + 1);
            skipped = 0;
            const bool is_in = in_function(moment, phase);
            series.add(record_of(StackId{is_in ? 1U : 2U}, tick++, weight), is_in ? 1 : 2);
            if (is_in) sum.time += weight;
        }
        const std::uint32_t row = 0;
        const auto found = series.spreads(
            [&](std::uint32_t key) { return std::span<const std::uint32_t>(&row, key == 1 ? 1 : 0); }, 1);
        const double error = std::sqrt(found[0].variance + series.square_weight() * SampleSeries::kPrior) / 1e9;
        const double off = std::abs(std::chrono::duration<double>(sum.time).count() - truth_s);
        covered.one += off <= error ? 1.0 / runs : 0;
        covered.two += off <= 1.96 * error ? 1.0 / runs : 0;
    }
    return covered;
}

// How far a share found in so many runs may lie from the true one, once in some million times.
double chance(double share, int runs) { return 5 * std::sqrt(share * (1 - share) / runs); }

constexpr int kRuns = 4000;

}  // namespace

TEST_CASE("sample series: errors cover what they claim where a program switches within a period") {
    // 0.37 ms of each 0.5 ms; the phase is another in each run.
    const Coverage found = coverage(kRuns, 400, 0, [](double t, double phase) { return std::fmod(t / 0.0005 + phase, 1) < 0.74; }, 4 * 0.74);
    CHECK(std::abs(found.one - 0.6827) < chance(0.68, kRuns) + 0.03);
    CHECK(std::abs(found.two - 0.95) < chance(0.95, kRuns) + 0.015);
}

TEST_CASE("sample series: late ticks widen the error as they should") {
    const Coverage found = coverage(kRuns, 400, 0.2, [](double t, double phase) { return std::fmod(t / 0.0005 + phase, 1) < 0.3; }, 4 * 0.3);
    CHECK(std::abs(found.one - 0.6827) < chance(0.68, kRuns) + 0.03);
    CHECK(std::abs(found.two - 0.95) < chance(0.95, kRuns) + 0.015);
}

TEST_CASE("sample series: where phases are longer than a period the error is smaller, and still covers") {
    // 70 ms of each 200 ms. Independent samples would have an error of 95 ms.
    const Coverage found = coverage(kRuns, 400, 0, [](double t, double phase) { return std::fmod(t / 0.2 + phase, 1) < 0.35; }, 4 * 0.35);
    CHECK(found.one > 0.6827 - chance(0.68, kRuns));
    CHECK(found.two > 0.95 - chance(0.95, kRuns));
    CHECK(found.one < 1);  // not by being without bounds
}

TEST_CASE("sample series: threads of one look are not independent") {
    // Two threads that are always in the function together: twice the error of one, not sqrt(2) times.
    SampleSeries one;
    SampleSeries two;
    std::mt19937 random(3);
    for (std::uint64_t tick = 0; tick < 2000; ++tick) {
        if (random() % 2 == 0) continue;
        const SampleRecord record = record_of(StackId{1}, tick);
        one.add(record, 1);
        two.add(record, 1);
        SampleRecord other = record;
        other.thread = 1;
        two.add(other, 1);
    }
    const std::uint32_t row = 0;
    const auto rows = [&](std::uint32_t) { return std::span<const std::uint32_t>(&row, 1); };
    CHECK(two.spreads(rows, 1)[0].variance == Approx(4 * one.spreads(rows, 1)[0].variance));
    // 1000 of 2000 independent samples: sqrt(n (1 - n/N)) T.
    CHECK(std::sqrt(one.spreads(rows, 1)[0].variance) / 1e9 == Approx(std::sqrt(500.0) * 0.01).epsilon(0.1));
}

TEST_CASE("sample series: what it keeps is bounded, and the error stays") {
    SampleSeries all;
    SampleSeries bounded(2000);
    std::mt19937 random(5);
    for (std::uint64_t tick = 0; tick < 100'000; ++tick) {
        const SampleRecord record = record_of(StackId{random() % 4 == 0 ? 1U : 2U}, tick);
        all.add(record, raw(record.stack));
        bounded.add(record, raw(record.stack));
    }
    CHECK(bounded.is_thinned());
    CHECK(bounded.runs() <= 2000 + SampleSeries::kBlockTicks);
    const std::uint32_t row = 0;
    const auto rows = [&](std::uint32_t key) { return std::span<const std::uint32_t>(&row, key == 1 ? 1 : 0); };
    CHECK(bounded.spreads(rows, 1)[0].variance == Approx(all.spreads(rows, 1)[0].variance).epsilon(0.2));
    CHECK(bounded.square_weight() == all.square_weight());
}
