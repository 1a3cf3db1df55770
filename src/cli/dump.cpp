// SPDX-License-Identifier: Apache-2.0
//
// `pyprof dump`: attaches, takes one look, prints it as text or JSON.
#include "sample/dump.h"

#include "base/text.h"
#include "cli/commands.h"
#include "profile/source_path.h"
#include "target/live_target.h"
#include "target/recording_target.h"
#include "target/snapshot_target.h"

#include <fmt/format.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <cstdio>
#include <optional>

namespace pyprof {

namespace {

// Raised when a key changes its meaning or goes; new keys may come at any time.
constexpr int kSchema = 1;

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += ' ';
        text += word;
    }
    return text;
}

void print_text(const Dump& dump, const DumpSettings& settings) {
    fmt::print("Process {}: {}\nPython {}\n", dump.process.pid, escape_control(joined(dump.process.command)), dump.python);
    if (dump.broken_lists > 0) fmt::print("{} lists of threads could not be read to their end\n", dump.broken_lists);
    for (const DumpThread& thread : dump.threads) {
        fmt::print("\nThread {} \"{}\" {}", thread.native_id, escape_control(thread.name), name_of(thread.condition));
        if (thread.syscall) fmt::print(" in {}", *thread.syscall);
        if (thread.holds_gil.value_or(false)) fmt::print(", holds the GIL");
        fmt::print("\n");
        if (thread.frames.empty()) fmt::print("    no Python frames\n");
        for (const DumpFrame& frame : thread.frames) {
            std::string text = escape_control(frame.name);
            if (!frame.file.empty()) {
                const std::string_view file =
                    settings.full_filenames ? std::string_view(frame.file)
                                            : shorten(frame.file, dump.process.working_directory).short_path;
                text += fmt::format(" ({}", escape_control(file));
                text += frame.line > 0 ? fmt::format(":{})", frame.line) : ")";
            }
            fmt::print("    {}\n", text);
        }
    }
}

void print_json(const Dump& dump) {
    rapidjson::StringBuffer buffer;
    rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
    writer.SetIndent(' ', 2);
    const auto text = [&](const char* key, std::string_view value) {
        writer.Key(key);
        writer.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
    };
    writer.StartObject();
    writer.Key("schema");
    writer.Int(kSchema);
    writer.Key("pid");
    writer.Int(dump.process.pid);
    writer.Key("command");
    writer.StartArray();
    for (const std::string& word : dump.process.command) {
        const std::string shown = escape_control(word);
        writer.String(shown.data(), static_cast<rapidjson::SizeType>(shown.size()));
    }
    writer.EndArray();
    text("python", dump.python);
    writer.Key("broken_lists");
    writer.Uint(dump.broken_lists);
    writer.Key("threads");
    writer.StartArray();
    for (const DumpThread& thread : dump.threads) {
        writer.StartObject();
        writer.Key("native_id");
        writer.Uint64(thread.native_id);
        text("name", thread.name);
        text("state", name_of(thread.condition));
        writer.Key("holds_gil");
        if (thread.holds_gil) {
            writer.Bool(*thread.holds_gil);
        } else {
            writer.Null();
        }
        if (thread.syscall) {
            text("syscall", *thread.syscall);
        } else {
            writer.Key("syscall");
            writer.Null();
        }
        writer.Key("frames");
        writer.StartArray();
        for (const DumpFrame& frame : thread.frames) {
            writer.StartObject();
            text("kind", frame.kind == FrameKind::kPython ? "python" : frame.kind == FrameKind::kNative ? "native" : "marker");
            text("name", frame.name);
            text("file", frame.file);
            writer.Key("line");
            writer.Int(frame.line);
            writer.EndObject();
        }
        writer.EndArray();
        writer.EndObject();
    }
    writer.EndArray();
    writer.EndObject();
    fmt::print("{}\n", std::string_view(buffer.GetString(), buffer.GetSize()));
}

}  // namespace

Result<int> run_dump(const DumpSettings& settings) {
    auto opened = settings.replay.empty() ? open_live_target(settings.pid) : open_snapshot(settings.replay);
    if (!opened) return tl::unexpected(opened.error());
    std::optional<RecordingTarget> recorder;
    if (!settings.snapshot.empty()) recorder.emplace(**opened);
    Target& target = recorder ? static_cast<Target&>(*recorder) : **opened;
    auto process = PythonProcess::attach(target);
    if (!process) return tl::unexpected(process.error());
    const auto dump = take_dump(target, *process, {settings.nonblocking, true});
    if (!dump) return tl::unexpected(dump.error());
    if (settings.json) {
        print_json(*dump);
    } else {
        print_text(*dump, settings);
    }
    if (recorder) {
        const auto written = write_snapshot(recorder->snapshot(), settings.snapshot);
        if (!written) return tl::unexpected(written.error());
    }
    std::fflush(stdout);  // a reader that has left is no failure of ours
    return 0;
}

}  // namespace pyprof
