// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof top` counts, shows and does at a key, over small profiles whose numbers can be told by hand.
#include "live/process_usage.h"
#include "live/text_width.h"
#include "live/top_details.h"
#include "live/top_model.h"
#include "live/top_plain.h"
#include "live/top_screen.h"

#include "support/files.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

using namespace pyprof;
using namespace std::chrono_literals;

namespace {

// A recording as the sampler writes it: stacks by name, root first; 10 ms a sample.
struct Recording {
    Recording() : stacks(std::make_shared<StackTable>()), source(stacks) {
        source.add_thread({100, "MainThread", true});
        source.add_thread({101, "worker", false});
        model.begin(source, stacks, nullptr, 0s);
    }

    void add(const std::vector<std::pair<std::string, int>>& frames, std::uint32_t samples, SampleMarks marks = {true, true},
             ThreadIndex thread = 0) {
        StackId stack = kRootStack;
        PathId path = kRootPath;
        for (const auto& [name, line] : frames) {
            const auto [entry, is_new] = codes.try_emplace(name, static_cast<std::uint32_t>(codes.size()));
            path = stacks->intern_path(path, entry->second);
            const FrameId frame =
                stacks->intern_frame({FrameKind::kPython, stacks->intern_string(name), stacks->intern_string("/srv/app.py"), line});
            stack = stacks->intern_child(stack, frame, path);
        }
        stacks->prove(path);
        tick += samples;
        model.add({stack, thread, samples, samples * 10ms, now += samples * 10ms, tick - 1, marks});
        for (std::uint32_t i = 0; i < samples && marks.is_running; ++i) looks.push_back(frames);
    }

    TopData data(WhichThreads which = WhichThreads::kRunning, bool per_thread = false, bool with_lines = false,
                 TopErrorsOf errors = TopErrorsOf::kNothing) const {
        TopData result;
        result.which = which;
        const TopModel::Choice choice{which, per_thread, false};
        result.tree = make_top_tree(model.last_interval(choice), model.since_start(choice), with_lines, errors);
        return result;
    }

    std::shared_ptr<StackTable> stacks;
    Profile source;
    TopModel model;
    std::map<std::string, std::uint32_t> codes;
    std::chrono::nanoseconds now{0};
    std::uint64_t tick = 0;
    std::vector<std::vector<std::pair<std::string, int>>> looks;  // of running threads, one a look
};

// 100 samples of running threads, 50 of a sleeper.
struct Example : Recording {
    Example() {
        add({{"main", 3}, {"fib", 10}, {"fib", 10}, {"fib", 11}}, 40);
        add({{"main", 4}, {"render 日本語", 20}}, 35);
        add({{"main", 4}, {"render 日本語", 21}, {"e\u0301scape", 30}}, 5);
        add({{"run", 50}, {"work", 60}}, 20, {true, false}, 1);
        add({{"run", 50}, {"wait", 70}}, 50, {false, false}, 1);
    }
};

std::map<std::string, TopLine> by_name(const TopData& data, const TopView& view = {}) {
    std::map<std::string, TopLine> result;
    for (const TopLine& line : make_top_lines(data, view)) result[line.name] = line;
    return result;
}

std::vector<std::string> names(const TopData& data, const TopView& view) {
    std::vector<std::string> result;
    for (const TopLine& line : make_top_lines(data, view)) result.push_back(std::string(static_cast<std::size_t>(line.depth), '>') + line.name);
    return result;
}

TopFacts facts() {
    TopFacts f;
    f.pid = 4711;
    f.command = "python3 app.py --serve";
    f.python = "3.12.1";
    f.elapsed = 12'300ms;
    f.interval = 1s;
    f.asked_hz = 100;
    f.reached_hz = 98.7;
    f.ticks = 1200;
    f.late = 3;
    f.gil_share = 83;
    f.running = 1.2;
    f.threads = 2;
    f.processors_used = 0.98;
    f.processors = 2;
    f.resident_bytes = 24'500'000;
    f.cpu_history = {0, 0.25, 0.5, 1};
    f.gil_history = {0.1, 0.9, 0.8, 0.83};
    return f;
}

TopAction press_all(TopView& view, const TopData& data, std::u32string_view keys) {
    TopAction action = TopAction::kNone;
    for (const char32_t key : keys) {
        const Key::Kind kind = key == U'\n' ? Key::Kind::kEnter : key == U'\x1b' ? Key::Kind::kEscape : Key::Kind::kCharacter;
        action = press(view, {kind, key}, make_top_lines(data, view), 6, 10);
    }
    return action;
}

void check_golden(const std::string& name, const std::string& found) {
    const std::string path = std::string(PYPROF_TEST_DIR) + "/golden/top_" + name + ".txt";
    if (std::getenv("PYPROF_REFRESH") != nullptr) std::ofstream(path) << found;
    std::ifstream file(path);
    std::stringstream expected;
    expected << file.rdbuf();
    INFO(path);
    CHECK(found == expected.str());
}

}  // namespace

TEST_CASE("top: a sample counts in the interval and since the start, a recursion once in the total") {
    Example r;
    r.model.end_interval();
    r.add({{"main", 3}, {"fib", 10}}, 10);
    auto lines = by_name(r.data());
    CHECK(lines["fib"].now.own == 40);  // the interval is the last that ended
    CHECK(lines["fib"].now.total == 40);
    CHECK(lines["fib"].all.total == 50);
    CHECK(lines["fib"].all.total_time == 500ms);
    CHECK(lines["main"].now.total == 80);
    CHECK(lines["main"].now.own == 0);
    r.model.end_interval();
    lines = by_name(r.data());
    CHECK(lines["fib"].now.own == 10);
    CHECK(lines["work"].now.total == 0);
    CHECK(lines["work"].all.total == 20);
    r.model.reset(1s);
    CHECK(make_top_lines(r.data(), {}).empty());
}

TEST_CASE("top: nothing exceeds its base, whichever threads are chosen") {
    Example r;
    r.model.end_interval();
    const std::pair<WhichThreads, std::uint64_t> bases[] = {{WhichThreads::kRunning, 100}, {WhichThreads::kAll, 150}, {WhichThreads::kGilHolder, 80}};
    for (const auto& [which, base] : bases) {
        for (const bool per_thread : {false, true}) {
            for (const bool with_lines : {false, true}) {
                const TopData data = r.data(which, per_thread, with_lines);
                CHECK(data.tree.nodes.front().now.total == base);
                std::uint64_t own = 0;
                for (const TopRow& row : make_top_rows(data.tree)) {
                    CHECK(row.now.total <= base);
                    CHECK(row.now.own <= row.now.total);
                    own += row.now.own;
                }
                CHECK(own == base);
            }
        }
    }
    CHECK(r.model.total_samples(WhichThreads::kAll) == 150);
    CHECK(r.model.whole({WhichThreads::kGilHolder}).total_samples == 80);
}

namespace {

// By the rule of docs/watch.md, in the plainest way: from what each look saw, in samples.
double error_by_hand(const Recording& r, const std::string& function, bool own) {
    std::vector<int> seen;
    for (const auto& frames : r.looks) {
        const bool is_in = std::any_of(frames.begin(), frames.end(), [&](const auto& frame) { return frame.first == function; });
        seen.push_back(own ? frames.back().first == function : is_in);
    }
    double squares = 0;
    for (std::size_t i = 1; i < seen.size(); ++i) squares += (seen[i] - seen[i - 1]) * (seen[i] - seen[i - 1]);
    const double looks = static_cast<double>(seen.size());
    return std::sqrt(0.5 * squares * looks / (looks - 1) + 0.5);
}

}  // namespace

TEST_CASE("top: errors follow the rule of watch") {
    Recording r;
    for (int i = 0; i < 50; ++i) {
        r.add({{"main", 3}, {"fast", 1}}, 1);
        r.add({{"main", 3}, {"slow", 1}, {"fast", 1}, {"slow", 2}}, i % 3 == 0 ? 3 : 1);
        if (i % 7 == 0) r.add({{"main", 3}}, 4);
    }
    r.model.end_interval();
    const double base = static_cast<double>(r.looks.size());
    TopView view;
    for (const bool as_tree : {false, true}) {
        view.as_tree = as_tree;
        auto lines = by_name(r.data(WhichThreads::kRunning, false, false, as_tree ? TopErrorsOf::kNodes : TopErrorsOf::kRows), view);
        for (const char* name : {"main", "fast", "slow"}) {
            if (as_tree && std::string(name) != "main") continue;  // others stand in several places of the tree
            const TopErrors& errors = lines.at(name).errors;
            INFO(name);
            CHECK(errors.own_percent == Approx(100 * error_by_hand(r, name, true) / base));
            CHECK(errors.total_percent == Approx(100 * error_by_hand(r, name, false) / base));
            CHECK(errors.own_time.count() == Approx(1e7 * error_by_hand(r, name, true)).epsilon(1e-6));
            CHECK(errors.total_time.count() == Approx(1e7 * error_by_hand(r, name, false)).epsilon(1e-6));
        }
    }
    CHECK(share_of(1, 0) == 0);
}

TEST_CASE("top: the share of all that ran is as sure as one sample, however often nothing ran") {
    Recording r;
    for (int i = 0; i < 30; ++i) {
        r.add({{"main", 3}}, 1);
        r.tick += 3;  // nothing runs
    }
    r.model.end_interval();
    const TopErrors errors = by_name(r.data(WhichThreads::kRunning, false, false, TopErrorsOf::kRows)).at("main").errors;
    CHECK(errors.total_percent == Approx(100 * std::sqrt(0.5) / 30));
    CHECK(errors.total_time > 50ms);  // how long it ran is not as sure
}

TEST_CASE("top: waiting tasks of one look are a crowd, not a run") {
    SampleSeries crowd;
    SampleSeries apart;
    for (std::uint64_t tick = 0; tick < 100; tick += 2) {
        SampleRecord record{StackId{1}, 0, 5, 50ms, 0ns, tick, {}, true};
        crowd.add(record, 1);
        record.samples = 1;
        record.weight = 10ms;
        for (int i = 0; i < 5; ++i) apart.add(record, 1);
    }
    const std::uint32_t row = 0;
    const auto rows = [&](std::uint32_t) { return std::span<const std::uint32_t>(&row, 1); };
    CHECK(crowd.spreads(rows, 1)[0].variance == Approx(apart.spreads(rows, 1)[0].variance));
    CHECK(crowd.ticks() == 99);
}

TEST_CASE("top: a recording that follows another adds to what was counted") {
    Example r;
    r.model.end_interval();
    const auto before = by_name(r.data());
    r.model.end();
    // The same threads, with stacks of other numbers.
    const auto stacks = std::make_shared<StackTable>();
    Profile source(stacks);
    source.add_thread({101, "worker", false});
    const FrameId other = stacks->intern_frame({FrameKind::kPython, stacks->intern_string("other"), stacks->intern_string("/srv/app.py"), 7});
    const FrameId fib = stacks->intern_frame({FrameKind::kPython, stacks->intern_string("fib"), stacks->intern_string("/srv/app.py"), 10});
    const PathId path = stacks->intern_path(kRootPath, 0);
    stacks->prove(path);
    r.model.begin(source, stacks, nullptr, 20s);
    r.model.add({stacks->intern_child(kRootStack, other, path), 0, 3, 30ms, 30ms, 2, {true, true}});
    r.model.add({stacks->intern_child(kRootStack, fib, path), 0, 2, 20ms, 50ms, 4, {true, true}});
    r.model.end_interval();
    auto lines = by_name(r.data());
    CHECK(lines["fib"].all.own == before.at("fib").all.own + 2);
    CHECK(lines["fib"].now.own == 2);
    CHECK(lines["work"].all.own == 20);
    CHECK(lines["work"].now.own == 0);
    CHECK(r.data().tree.nodes.front().all.total == 105);
    CHECK(r.data().tree.nodes.front().now.total == 5);

    const ResolvedProfile whole = r.model.whole({}, false, true);
    CHECK(whole.total_samples == 105);
    CHECK(whole.threads.size() == 2);
    std::uint64_t of_weights = 0;
    std::uint64_t of_spans = 0;
    for (const auto& weight : whole.weights) of_weights += weight.samples;
    for (const auto& span : whole.spans) of_spans += span.samples;
    CHECK(of_weights == 105);
    CHECK(of_spans == 105);
    REQUIRE_FALSE(whole.spans.empty());
    CHECK(whole.spans.front().begin == 0s);
    CHECK(whole.spans.back().begin == 20s + 30ms);  // where the second recording began
    CHECK(r.model.whole({}).spans.empty());

    r.model.reset(21s);
    CHECK(make_top_lines(r.data(), {}).empty());
    CHECK(r.model.whole({}, false, true).total_samples == 0);
}

namespace {

struct OneNativeName final : NativeNames {
    void name_run(std::span<const std::uint32_t> run, RunPlace, std::vector<ResolvedProfile::Frame>& frames) override {
        for (std::size_t i = 0; i < run.size(); ++i) frames.push_back({FrameKind::kNative, "memcpy", "", "", 0, "libc.so.6"});
    }
};

}  // namespace

TEST_CASE("top: native frames are shown where they are wanted, and their threads counted only then") {
    const auto stacks = std::make_shared<StackTable>();
    Profile source(stacks);
    source.add_thread({100, "MainThread", true});
    source.add_thread({102, "pool", false});
    TopModel model;
    model.begin(source, stacks, std::make_shared<OneNativeName>(), 0s);
    const FrameId main = stacks->intern_frame({FrameKind::kPython, stacks->intern_string("main"), stacks->intern_string("/srv/app.py"), 7});
    const FrameId native = stacks->intern_frame({FrameKind::kNative, kNoString, kNoString, 1});
    const PathId path = stacks->intern_path(kRootPath, 0);
    stacks->prove(path);
    const StackId below = stacks->intern_child(kRootStack, main, path);
    model.add({stacks->intern_child(below, native, path), 0, 6, 60ms, 60ms, 5, {true, true}});
    model.add({stacks->intern_child(kRootStack, native, kRootPath), 1, 4, 40ms, 40ms, 3, {true, false}});
    model.end_interval();
    for (const bool per_thread : {false, true}) {
        for (const bool with_native : {false, true}) {
            const TopModel::Choice choice{WhichThreads::kRunning, per_thread, with_native};
            TopData data;
            data.tree = make_top_tree(model.last_interval(choice), model.since_start(choice), false, TopErrorsOf::kRows);
            CHECK(data.tree.nodes.front().now.total == (with_native ? 10 : 6));
            CHECK(model.whole(choice).total_samples == (with_native ? 10 : 6));
            TopView view;
            view.per_thread = per_thread;
            view.with_native = with_native;
            std::map<std::string, std::uint64_t> own;
            for (const TopRow& row : make_top_rows(data.tree)) own[data.tree.functions[row.function].name] += row.now.own;
            CHECK(own["main"] == (with_native ? 0 : 6));
            CHECK(own["memcpy"] == (with_native ? 10 : 0));
            if (with_native && !per_thread) CHECK(by_name(data, view)["memcpy"].where == "libc.so.6");
        }
    }
}

TEST_CASE("sample log: changes are kept and not time, all or nothing") {
    SampleLog log(3);
    const auto add = [&](unsigned stack, std::uint64_t tick, std::uint32_t samples = 1, ThreadIndex thread = 0) {
        log.add({StackId{stack}, thread, samples, samples * 10ms, static_cast<std::int64_t>(tick + 1) * 10ms, tick, {true, true}});
    };
    add(1, 0);
    add(1, 1);
    add(2, 1, 1, 1);
    add(1, 4, 3);
    REQUIRE(log.records().size() == 2);
    CHECK(log.records()[0].samples == 5);
    CHECK(log.records()[0].weight == 50ms);
    add(1, 9);  // there is a hole before it
    CHECK(log.records().size() == 3);
    CHECK(log.is_whole());
    add(3, 10);
    CHECK_FALSE(log.is_whole());
    CHECK(log.records().empty());
    log.clear();
    add(3, 11);
    CHECK(log.is_whole());
    CHECK(log.records().size() == 1);
}

TEST_CASE("top: lines are sorted by the column that is chosen, either way") {
    Example r;
    r.model.end_interval();
    const TopData data = r.data();
    TopView view;
    CHECK(names(data, view).front() == "fib");
    press_all(view, data, U"s");
    CHECK(names(data, view).front() == "main");
    press_all(view, data, U"S");
    CHECK(names(data, view).back() == "main");
    press_all(view, data, U"Ssss");
    CHECK(view.sort == TopSort::kName);
    CHECK(names(data, view) == std::vector<std::string>{"e\u0301scape", "fib", "main", "render 日本語", "run", "work"});
}

TEST_CASE("top: a filter hides, a search finds, and both are regular expressions") {
    Example r;
    r.model.end_interval();
    const TopData data = r.data();
    TopView view;
    press_all(view, data, U"\\^(fib|work)\n");
    CHECK(names(data, view) == std::vector<std::string>{"fib", "work"});
    press_all(view, data, U"\x1b");
    CHECK(names(data, view).size() == 6);
    press_all(view, data, U"/WORK|run\n");  // capitals count
    CHECK(view.selected == by_name(data)["run"].id);
    press_all(view, data, U"/r\n");
    const auto first = view.selected;
    press_all(view, data, U"n");
    CHECK(view.selected != first);
    press_all(view, data, U"N");
    CHECK(view.selected == first);
    press_all(view, data, U"/(\n");
    CHECK(view.message == "no regular expression: (");
    press_all(view, data, U"/nobody\n");
    CHECK(view.message == "not found: nobody");
    press_all(view, data, U"\\(\n");
    CHECK(view.filter.empty());
}

TEST_CASE("top: the tree opens chains by itself and everything else when asked") {
    Example r;
    r.model.end_interval();
    const TopData data = r.data();
    TopView view;
    press_all(view, data, U"e");
    CHECK(names(data, view) == std::vector<std::string>{"main", "run"});
    press(view, {Key::Kind::kRight}, make_top_lines(data, view), 6, 10);
    CHECK(names(data, view) == std::vector<std::string>{"main", ">render 日本語", ">fib", "run"});
    press(view, {Key::Kind::kDown}, make_top_lines(data, view), 6, 10);
    press(view, {Key::Kind::kRight}, make_top_lines(data, view), 6, 10);
    CHECK(names(data, view)[2] == ">>e\u0301scape");
    press(view, {Key::Kind::kUp}, make_top_lines(data, view), 6, 10);
    press(view, {Key::Kind::kLeft}, make_top_lines(data, view), 6, 10);
    CHECK(names(data, view) == std::vector<std::string>{"main", "run"});
    view.flipped.clear();
    view.filter = "scape";  // with the way to it
    CHECK(names(data, view) == std::vector<std::string>{"main", ">render 日本語", ">>e\u0301scape"});
}

TEST_CASE("top: per thread, each has its functions below it") {
    Example r;
    r.model.end_interval();
    TopView view;
    view.per_thread = true;
    CHECK(names(r.data(WhichThreads::kAll, true), view) ==
          std::vector<std::string>{"[thread MainThread]", ">fib", ">render 日本語", ">e\u0301scape", ">main", "[thread worker]", ">wait", ">work", ">run"});
}

TEST_CASE("top: keys ask for what they stand for") {
    Example r;
    r.model.end_interval();
    const TopData data = r.data();
    TopView view;
    CHECK(press_all(view, data, U"q") == TopAction::kQuit);
    CHECK(press_all(view, data, U"\x03") == TopAction::kQuit);
    CHECK(press_all(view, data, U"\x1a") == TopAction::kSuspend);
    CHECK(press_all(view, data, U"r") == TopAction::kReset);
    CHECK(press_all(view, data, U"v") == TopAction::kRecord);
    CHECK(view.with_native);
    CHECK(press_all(view, data, U"a") == TopAction::kRecord);
    CHECK(view.async == AsyncMode::kRunning);
    CHECK_FALSE(view.with_native);  // one or the other
    press_all(view, data, U"a");
    CHECK(view.async == AsyncMode::kAll);
    CHECK(view.which == WhichThreads::kAll);  // waiting tasks are idle
    press_all(view, data, U"v");
    CHECK(view.async == AsyncMode::kOff);
    CHECK(view.which == WhichThreads::kRunning);
    press_all(view, data, U"v");
    CHECK_FALSE(view.with_native);
    CHECK(press_all(view, data, U"i") == TopAction::kRecount);
    CHECK(view.which == WhichThreads::kAll);
    press_all(view, data, U"g");
    CHECK(view.which == WhichThreads::kGilHolder);
    press_all(view, data, U"g");
    CHECK(view.which == WhichThreads::kRunning);
    press_all(view, data, U"+");
    CHECK(view.refresh == 500ms);
    press_all(view, data, U"---");
    CHECK(view.refresh == 5s);
    press_all(view, data, U" ");
    CHECK(view.is_paused);
    CHECK(press_all(view, data, U"\n") == TopAction::kDetails);
    CHECK(press_all(view, data, U"wout.txt\n") == TopAction::kSave);
    CHECK(view.typed == "out.txt");
    press_all(view, data, U"?");
    press(view, {Key::Kind::kOther}, make_top_lines(data, view), 6, 10);  // the release of a mouse button
    CHECK(view.shows_help);
    press_all(view, data, U"x");
    CHECK_FALSE(view.shows_help);
    press(view, {Key::Kind::kClick, 0, 8, 3}, make_top_lines(data, view), 6, 10);
    CHECK(selected_line(make_top_lines(data, view), view) == 2);
    CHECK(press(view, {Key::Kind::kClick, 0, 30, 3}, make_top_lines(data, view), 6, 10) == TopAction::kNone);
    CHECK(press(view, {Key::Kind::kWheelDown}, make_top_lines(data, view), 6, 10) == TopAction::kRedraw);
    CHECK(selected_line(make_top_lines(data, view), view) == 5);
}

TEST_CASE("top: details have heat by line, callers and callees, each sample once") {
    Example r;
    const std::vector<TopSource> profile = r.model.since_start({});
    const TopDetails fib = make_details(profile, {FrameKind::kPython, "fib", "app.py", "/srv/app.py", "", 0}, {}, "");
    CHECK(fib.count.own == 40);
    CHECK(fib.count.total == 40);
    CHECK(fib.samples == 100);
    REQUIRE(fib.callers.size() == 1);
    CHECK(fib.callers[0].name == "main");
    CHECK(fib.callers[0].samples == 40);
    CHECK(fib.callees.empty());
    const std::vector<std::string> source(100, "x = 1");
    const TopDetails render = make_details(profile, {FrameKind::kPython, "render 日本語", "app.py", "/srv/app.py", "", 0}, source, "");
    CHECK(render.lines.front().number == 15);
    CHECK(render.lines.back().number == 26);
    CHECK(render.lines[5].count.own == 35);
    CHECK(render.lines[6].count.total == 5);
    REQUIRE(render.callees.size() == 1);
    CHECK(render.callees[0].samples == 5);
}

TEST_CASE("top: screens of all sizes") {
    Example r;
    r.model.end_interval();
    for (const auto& [columns, rows] : {std::pair(40, 10), std::pair(80, 24), std::pair(200, 60)}) {
        TopData data = r.data();
        data.facts = facts();
        TopView view;
        const auto screen = [&] { return draw_top(data, view, make_top_lines(data, view), rows, columns).text(); };
        check_golden(fmt::format("table_{}x{}", columns, rows), screen());
        view.with_errors = true;
        data.tree = r.data(WhichThreads::kRunning, false, false, TopErrorsOf::kRows).tree;
        check_golden(fmt::format("errors_{}x{}", columns, rows), screen());
        view.with_errors = false;
        view.as_tree = true;
        view.flipped.insert(make_top_lines(data, view).front().id);
        view.is_paused = true;
        view.prompt = TopView::Prompt::kSearch;
        view.typed = "rend";
        check_golden(fmt::format("tree_{}x{}", columns, rows), screen());
        view = {};
        view.shows_help = true;
        check_golden(fmt::format("help_{}x{}", columns, rows), screen());
        view = {};
        view.details = make_details(r.model.since_start({}), {FrameKind::kPython, "render 日本語", "app.py", "/srv/app.py", "", 0},
                                    std::vector<std::string>(100, "    total += \"日本\"  # e\u0301"), "");
        view.details_scroll = first_detail(*view.details, rows);
        check_golden(fmt::format("details_{}x{}", columns, rows), screen());
    }
}

TEST_CASE("top: screens of all sizes say what was counted, in columns") {
    // By hand, from Example: of 100 samples of running threads, 10 ms each.
    struct Row {
        const char* name;
        int own;
        int total;
        const char* line;
    };
    constexpr Row kRows[] = {{"fib", 40, 40, ":10"}, {"render 日本語", 35, 40, ":20"}, {"work", 20, 20, ":60"},
                             {"e\u0301scape", 5, 5, ":30"}, {"main", 0, 80, ":3"},          {"run", 0, 20, ":50"}};
    Example r;
    r.model.end_interval();
    for (const auto& [columns, rows] : {std::pair(40, 10), std::pair(64, 14), std::pair(80, 24), std::pair(200, 60)}) {
        TopData data = r.data();
        data.facts = facts();
        const TopView view;
        std::vector<std::string> screen;
        std::istringstream text(draw_top(data, view, make_top_lines(data, view), rows, columns).text());
        for (std::string line; std::getline(text, line);) screen.push_back(line);
        REQUIRE(screen.size() == static_cast<std::size_t>(rows));
        const int first = top_layout(rows).first_row;
        CHECK(screen[static_cast<std::size_t>(first) - 2].rfind("% of 100 samples of running threads in ", 0) == 0);
        CHECK(screen[static_cast<std::size_t>(first) - 1].rfind("  ▼%own %total", 0) == 0);
        std::size_t at = static_cast<std::size_t>(first);
        for (const Row& row : kRows) {
            if (at + 1 >= screen.size()) break;  // the last row has the keys
            const std::string& line = screen[at++];
            INFO(columns << "x" << rows << ": " << line);
            std::string numbers = fmt::format("{:5}.0{:5}.0", row.own, row.total);
            if (columns >= 50) numbers += fmt::format("    {}.{:02}s    {}.{:02}s", row.own / 100, row.own % 100, row.total / 100, row.total % 100);
            CHECK(line.substr(0, numbers.size()) == numbers);
            CHECK(line.substr(numbers.size(), 1 + std::string(row.name).size()) == " " + std::string(row.name));
            CHECK(line.size() > std::string(row.line).size());
            CHECK(line.substr(line.size() - std::string(row.line).size()) == row.line);
            CHECK(columns_of(line) <= columns);
        }
    }
}

TEST_CASE("top: that the process is stopped stands in the head, as long as it lives") {
    Example r;
    r.model.end_interval();
    TopData data = r.data();
    data.facts = facts();
    const TopView view;
    const auto says_stopped = [&] { return draw_top(data, view, {}, 24, 80).text().find("[stopped]") != std::string::npos; };
    CHECK_FALSE(says_stopped());
    data.facts.is_stopped = true;
    CHECK(says_stopped());
    data.facts.has_ended = true;
    CHECK_FALSE(says_stopped());
}

TEST_CASE("top: every size draws, and every row is as wide as the screen") {
    Example r;
    r.model.end_interval();
    TopData data = r.data();
    data.facts = facts();
    for (int rows = 1; rows <= 60; rows += 7) {
        for (int columns = 1; columns <= 200; columns += 13) {
            for (const bool errors : {false, true}) {
                TopView view;
                view.with_errors = errors;
                const Grid grid = draw_top(data, view, make_top_lines(data, view), rows, columns);
                CHECK(grid.rows() == rows);
                CHECK(in_ascii(grid).columns() == columns);
            }
        }
    }
}

TEST_CASE("top: the plain table and the JSON line say the same") {
    Example r;
    r.model.end_interval();
    TopData data = r.data();
    data.facts = facts();
    TopView view;
    const auto lines = make_top_lines(data, view);
    check_golden("plain", plain_table(data, view, lines, 3));
    rapidjson::Document json;
    json.Parse(json_line(data, view, lines).c_str());
    REQUIRE(json.IsObject());
    CHECK(json["interval_samples"].GetUint64() == 100);
    CHECK(json["rows"].Size() == 6);
    CHECK(json["rows"][0]["function"].GetString() == std::string("fib"));
    CHECK(json["rows"][0]["own_samples"].GetUint64() == 40);
    CHECK(json["rows"][0]["own_time_s"].GetDouble() == Approx(0.4));
}

TEST_CASE("process usage: the fields of stat, whatever the name holds") {
    const std::string stat = "7 (a) b 1 2) R 1 7 7 0 -1 4194560 5 0 0 0 150 50 0 0 20 0 1 0 99 1000000 250 18446744073709551615 1 1\n";
    const auto usage = parse_usage(stat, 100, 4096);
    REQUIRE(usage);
    CHECK(usage->cpu == 2s);
    CHECK(usage->resident_bytes == 250 * 4096);
    CHECK_FALSE(usage->is_stopped);
    std::string stopped = stat;
    stopped[stopped.find(" R ") + 1] = 'T';
    CHECK(parse_usage(stopped, 100, 4096)->is_stopped);
    for (std::size_t length = 0; length < stat.find(" 250 ") + 4; ++length) CHECK_FALSE(parse_usage(stat.substr(0, length), 100, 4096));
    CHECK_FALSE(parse_usage("7 (x) R -1 x", 100, 4096));
}
