// SPDX-License-Identifier: Apache-2.0
//
// From ids to what exporters see: folding of what is not proved, thread roots, joins, labels.
#include <pyprof/profile.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

using namespace pyprof;
using std::chrono::milliseconds;

namespace {

struct Recording {
    std::shared_ptr<StackTable> table = std::make_shared<StackTable>();
    Profile profile{table, true};
    ThreadIndex main = profile.add_thread({11, "MainThread", true});
    ThreadIndex worker = profile.add_thread({12, "", false});

    FrameId frame(const std::string& name, std::int32_t line = 1, FrameKind kind = FrameKind::kPython) {
        const StringId file = kind == FrameKind::kMarker ? kNoString : table->intern_string("/srv/app.py");
        return table->intern_frame(
            {kind, table->intern_string(name), file, kind == FrameKind::kMarker ? 0 : line});
    }
    // Frames root first; each Python frame also is a step of the path.
    StackId stack(const std::vector<FrameId>& frames, bool proved) {
        StackId stack = kRootStack;
        PathId path = kRootPath;
        for (const FrameId id : frames) {
            const bool is_python = table->frame(id).kind == FrameKind::kPython;
            if (is_python) path = table->intern_path(path, raw(table->frame(id).name));
            stack = table->intern_child(stack, id, path);
        }
        if (proved) table->prove(path);
        return stack;
    }
    void add(ThreadIndex thread, StackId stack, std::uint32_t samples, int end) {
        profile.add(thread, stack, samples, milliseconds(10) * samples, milliseconds(end));
    }
};

std::string text_of(const ResolvedProfile& profile, std::uint32_t node) {
    std::string text;
    for (; node != 0; node = profile.nodes[node].parent) {
        const std::string label = label_of(profile.frames[profile.nodes[node].frame]);
        text = text.empty() ? label : label + " < " + text;
    }
    return text;
}

std::map<std::string, std::uint64_t> samples_of(const ResolvedProfile& profile) {
    std::map<std::string, std::uint64_t> result;
    for (const auto& weight : profile.weights) result[text_of(profile, weight.node)] += weight.samples;
    return result;
}

using Samples = std::map<std::string, std::uint64_t>;

}  // namespace

TEST_CASE("resolve: a proved stack keeps all of its frames, parents before children") {
    Recording recording;
    const StackId stack = recording.stack({recording.frame("main"), recording.frame("work", 5)}, true);
    recording.add(recording.main, stack, 2, 20);
    const ResolvedProfile profile = resolve(recording.profile, {});

    CHECK(samples_of(profile) == Samples{{"main (/srv/app.py:1) < work (/srv/app.py:5)", 2}});
    CHECK(profile.total_samples == 2);
    CHECK(profile.figures.truncated == 0);
    for (std::uint32_t node = 1; node < profile.nodes.size(); ++node)
        CHECK(profile.nodes[node].parent < node);
}

TEST_CASE("resolve: of an unproved stack only the leaf is kept, and it is counted") {
    Recording recording;
    const FrameId main = recording.frame("main");
    const FrameId work = recording.frame("work");
    recording.profile.figures.truncated = 1;
    recording.add(recording.main, recording.stack({main}, true), 5, 50);
    recording.add(recording.main, recording.stack({main, work}, false), 2, 70);
    recording.add(recording.main, recording.stack({main, recording.frame("other"), work}, false), 1, 80);
    const ResolvedProfile profile = resolve(recording.profile, {});

    CHECK(samples_of(profile) ==
          Samples{{"main (/srv/app.py:1)", 5}, {"[unproved] < work (/srv/app.py:1)", 3}});
    CHECK(profile.weights.size() == 2);
    CHECK(profile.figures.truncated == 1 + 3);
    CHECK(profile.total_samples == 8);
    REQUIRE(profile.spans.size() == 2);
    CHECK(profile.spans[1].samples == 3);
    CHECK(profile.spans[1].weight == milliseconds(30));
}

TEST_CASE("resolve: callers that are sure stand below an unproved leaf, until its path is proved or follows") {
    Recording recording;
    const FrameId main = recording.frame("main");
    const FrameId work = recording.frame("work");
    const FrameId leaf = recording.frame("leaf");
    const StackId callers = recording.stack({main}, true);
    const StackId whole = recording.stack({main, work, leaf}, false);
    const PathId path = recording.table->node(whole).path;
    const auto node = static_cast<std::int32_t>(raw(whole));
    const FrameId open = recording.table->intern_frame({FrameKind::kUnproved, kNoString, kNoString, node});
    recording.add(recording.main, recording.table->intern_child(callers, open, path), 2, 20);

    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"main (/srv/app.py:1) < [unproved] < leaf (/srv/app.py:1)", 2}});
    CHECK(resolve(recording.profile, {}).figures.truncated == 2);

    const FrameId other = recording.frame("other");
    recording.table->infer_callers(path, recording.stack({other}, true));  // not by way of the callers that are sure
    CHECK(resolve(recording.profile, {}).figures.truncated == 2);
    recording.table->infer_callers(path, recording.stack({main, other}, true));
    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"main (/srv/app.py:1) < other (/srv/app.py:1) < leaf (/srv/app.py:1)", 2}});

    recording.table->prove(path);
    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"main (/srv/app.py:1) < work (/srv/app.py:1) < leaf (/srv/app.py:1)", 2}});
    CHECK(resolve(recording.profile, {}).figures.truncated == 0);
}

TEST_CASE("resolve: a marker on top of an unproved leaf keeps the frame it stands on") {
    Recording recording;
    const FrameId gc = recording.frame("[gc]", 0, FrameKind::kMarker);
    const StackId stack = recording.stack({recording.frame("main"), recording.frame("work"), gc}, false);
    recording.add(recording.main, stack, 1, 10);
    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"[unproved] < work (/srv/app.py:1) < [gc]", 1}});
}

TEST_CASE("resolve: a stack that is proved later is whole the next time") {
    Recording recording;
    const std::vector<FrameId> frames{recording.frame("main"), recording.frame("work")};
    recording.add(recording.main, recording.stack(frames, false), 1, 10);
    CHECK(resolve(recording.profile, {}).figures.truncated == 1);
    recording.stack(frames, true);
    const ResolvedProfile profile = resolve(recording.profile, {});
    CHECK(profile.figures.truncated == 0);
    CHECK(samples_of(profile) == Samples{{"main (/srv/app.py:1) < work (/srv/app.py:1)", 1}});
}

TEST_CASE("resolve: a leaf alone gets the callers that follow by now, and loses them when they follow no longer") {
    Recording recording;
    const StackId callers = recording.stack({recording.frame("main"), recording.frame("load", 7)}, true);
    const FrameId gc = recording.frame("[gc]", 0, FrameKind::kMarker);
    const StackId alone = recording.stack({recording.frame("[unproved]", 0, FrameKind::kMarker), recording.frame("work", 5)}, false);
    const PathId path = recording.table->node(alone).path;
    recording.add(recording.main, alone, 3, 30);
    recording.add(recording.main, recording.table->intern_child(alone, gc, path), 1, 40);
    const Samples unproved{{"[unproved] < work (/srv/app.py:5)", 3}, {"[unproved] < work (/srv/app.py:5) < [gc]", 1}};
    CHECK(samples_of(resolve(recording.profile, {})) == unproved);

    recording.table->infer_callers(path, callers);
    const ResolvedProfile inferred = resolve(recording.profile, {});
    const std::string whole = "main (/srv/app.py:1) < load (/srv/app.py:7) < work (/srv/app.py:5)";
    CHECK(samples_of(inferred) == Samples{{whole, 3}, {whole + " < [gc]", 1}});
    CHECK(inferred.figures.inferred == 4);
    CHECK(inferred.figures.truncated == 0);
    REQUIRE(inferred.spans.size() == 2);
    CHECK(text_of(inferred, inferred.spans[0].node) == whole);

    recording.table->infer_callers(path, std::nullopt);
    CHECK(samples_of(resolve(recording.profile, {})) == unproved);
    CHECK(resolve(recording.profile, {}).figures.truncated == 4);
}

TEST_CASE("resolve: a root frame per thread where it was asked for, with a number for a nameless one") {
    Recording recording;
    const FrameId work = recording.frame("work");
    recording.add(recording.main, recording.stack({work}, true), 1, 10);
    recording.add(recording.worker, recording.stack({work}, true), 2, 20);
    recording.add(recording.worker, recording.stack({work, work}, false), 3, 50);
    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"work (/srv/app.py:1)", 3}, {"[unproved] < work (/srv/app.py:1)", 3}});

    recording.profile.facts.with_threads = true;
    CHECK(samples_of(resolve(recording.profile, {})) ==
          Samples{{"[thread MainThread] < work (/srv/app.py:1)", 1},
                  {"[thread 12] < work (/srv/app.py:1)", 2},
                  {"[thread 12] < [unproved] < work (/srv/app.py:1)", 3}});
}

TEST_CASE("resolve: without lines frames of one function are one") {
    Recording recording;
    recording.profile.facts.with_lines = false;
    recording.add(recording.main, recording.stack({recording.frame("work", 1)}, true), 1, 10);
    recording.add(recording.main, recording.stack({recording.frame("work", 2)}, true), 1, 20);
    const ResolvedProfile profile = resolve(recording.profile, {});
    CHECK(samples_of(profile) == Samples{{"work (/srv/app.py)", 2}});
    CHECK(profile.frames.size() == 1);
    CHECK(profile.spans.size() == 1);
}

TEST_CASE("resolve: files are short unless full ones are asked for") {
    Recording recording;
    recording.profile.facts.working_directory = "/srv";
    recording.add(recording.main, recording.stack({recording.frame("work", 9)}, true), 1, 10);
    const ResolvedProfile brief = resolve(recording.profile, {});
    CHECK(samples_of(brief) == Samples{{"work (app.py:9)", 1}});
    CHECK(brief.frames[0].full_file == "/srv/app.py");
    ResolveOptions options;
    options.full_filenames = true;
    CHECK(samples_of(resolve(recording.profile, options)) == Samples{{"work (/srv/app.py:9)", 1}});
}

TEST_CASE("resolve: stacks of 10,000 frames and the empty stack pass") {
    Recording recording;
    std::vector<FrameId> frames;
    for (int i = 0; i < 10'000; ++i) frames.push_back(recording.frame("f", i + 1));
    recording.add(recording.main, recording.stack(frames, true), 1, 10);
    recording.add(recording.main, kRootStack, 1, 20);
    const ResolvedProfile profile = resolve(recording.profile, {});
    CHECK(profile.nodes.size() == 10'001);
    CHECK(profile.weights[1].node == 0);
    CHECK(profile.total_samples == 2);
}

TEST_CASE("resolve: an empty profile gives an empty one") {
    Recording recording;
    recording.profile.facts.pid = 7;
    const ResolvedProfile profile = resolve(recording.profile, {});
    CHECK(profile.facts.pid == 7);
    CHECK(profile.nodes.size() == 1);
    CHECK(profile.weights.empty());
    CHECK(profile.threads.size() == 2);
}

TEST_CASE("label: name, file and line as far as they are known") {
    ResolvedProfile::Frame frame{FrameKind::kPython, "Spam.eggs.<locals>.<lambda>", "a/b.py", "/x/a/b.py",
                                 12};
    CHECK(label_of(frame) == "Spam.eggs.<locals>.<lambda> (a/b.py:12)");
    frame.line = 0;
    CHECK(label_of(frame) == "Spam.eggs.<locals>.<lambda> (a/b.py)");
    frame.file.clear();
    frame.line = 3;
    CHECK(label_of(frame) == "Spam.eggs.<locals>.<lambda> (:3)");
    CHECK(label_of({FrameKind::kMarker, "[gc]", "", "", 0}) == "[gc]");
}
