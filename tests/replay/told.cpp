// SPDX-License-Identifier: Apache-2.0
#include "replay/told.h"

#include "support/files.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>

namespace pyprof::test {

namespace {

const std::string kDirectory = PYPROF_TEST_DIR "/replay";

ToldThread read_thread(const rapidjson::Value& value) {
    ToldThread thread{value["name"].GetString(), {}};
    for (const auto& frame : value["frames"].GetArray()) {  // name, qualified name or null, file, line
        const auto& name = frame[1].IsNull() ? frame[0] : frame[1];
        thread.frames.push_back({FrameKind::kPython, name.GetString(), frame[2].GetString(), frame[3].GetInt()});
    }
    return thread;
}

Stored read_stored(const std::string& build) {
    Stored stored;
    stored.build = build;
    INFO(build);
    auto snapshot = read_snapshot(kDirectory + "/" + build + ".snap");
    REQUIRE(snapshot);
    // What a dump does not ask for and a sampler does. All threads were at rest.
    for (auto& [tid, answers] : snapshot->thread_answers) answers.switch_count = 1;
    constexpr std::uint64_t kPageSize = 4096;
    snapshot->memory.for_each_run([&](Address from, std::span<const std::byte>) {
        const Address page{raw(from) & ~(kPageSize - 1)};
        if (stored.pages.empty() || stored.pages.back() != page) stored.pages.push_back(page);
    });
    stored.target = std::make_unique<SnapshotTarget>(std::move(*snapshot));
    rapidjson::Document told;
    const std::string text = read_text(kDirectory + "/" + build + ".json");
    told.Parse(text.c_str());
    REQUIRE_FALSE(told.HasParseError());
    stored.python = told["python"].GetString();
    for (const auto& thread : told["threads"].GetArray()) {
        stored.threads.emplace(thread["native_id"].GetUint64(), read_thread(thread));
    }
    return stored;
}

}  // namespace

const std::vector<Stored>& stored_snapshots() {
    static const std::vector<Stored> all = [] {
        std::vector<Stored> stored;
        for (const std::string& build : files_in(kDirectory, ".snap")) stored.push_back(read_stored(build));
        return stored;
    }();
    return all;
}

bool is_marker(const DumpFrame& frame) { return frame.kind == FrameKind::kMarker; }

bool is_same(const DumpFrame& found, const DumpFrame& told) {
    return found.kind == told.kind && found.name == told.name && found.file == told.file && found.line == told.line;
}

bool is_part_of(const std::vector<DumpFrame>& frames, const std::vector<DumpFrame>& told) {
    auto next = told.begin();
    for (const DumpFrame& frame : frames) {
        if (is_marker(frame)) continue;
        next = std::find_if(next, told.end(), [&](const DumpFrame& candidate) { return is_same(frame, candidate); });
        if (next == told.end()) return false;
        ++next;
    }
    return true;
}

std::string text_of(const std::vector<DumpFrame>& frames) {
    std::string text;
    for (const DumpFrame& frame : frames) text += fmt::format("\n  {} ({}:{})", frame.name, frame.file, frame.line);
    return text;
}

}  // namespace pyprof::test
