// SPDX-License-Identifier: Apache-2.0
//
// `pyprof dump`: attaches, takes one look, prints it as text or JSON.
#include "sample/dump.h"

#include "base/text.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/dump_tasks.h"
#include "cli/messages.h"
#include "profile/utf8.h"
#include "target/invoking_user.h"
#include "target/live_target.h"
#include "target/recording_target.h"
#include "target/snapshot_target.h"

#include <fmt/format.h>
#include <iterator>
#include <optional>

namespace pyprof {

namespace {

// Raised when a key changes its meaning or goes; new keys may come at any time.
constexpr int kSchema = 1;

std::string text_of(const Dump& dump, const DumpSettings& settings) {
    std::string out;
    const auto to = std::back_inserter(out);
    fmt::format_to(to, "Process {}: {}\nPython {}\n", dump.process.pid, escape_control(joined(dump.process.command)), dump.python);
    if (dump.stopped_by != StoppedBy::kNobody) {
        fmt::format_to(to, "It is {}: {}\n", what_of(dump.stopped_by), remedy_of(dump.stopped_by, dump.process.pid));
    }
    if (dump.broken_lists > 0) fmt::format_to(to, "{} lists of threads or tasks could not be read to their end\n", dump.broken_lists);
    if (dump.unreadable_threads > 0) fmt::format_to(to, "{} threads have ended meanwhile or could not be read\n", dump.unreadable_threads);
    for (const DumpThread& thread : dump.threads) {
        fmt::format_to(to, "\nThread {} \"{}\" {}", thread.native_id, escape_control(thread.name), name_of(thread.condition));
        if (thread.syscall) fmt::format_to(to, " in {}", *thread.syscall);
        if (thread.holds_gil.value_or(false)) fmt::format_to(to, ", holds the GIL");
        fmt::format_to(to, "\n");
        if (thread.frames.empty()) fmt::format_to(to, "    no {}frames\n", settings.native ? "" : "Python ");
        for (const DumpFrame& frame : thread.frames) {
            fmt::format_to(to, "    {}\n", label_of(frame, dump.process.working_directory, settings.full_filenames));
        }
    }
    append_tasks(dump, settings.full_filenames, out);
    return out;
}

std::string json_of(const Dump& dump) {
    JsonText json;
    PrettyJsonWriter writer(json.stream());
    writer.SetIndent(' ', 2);
    const auto value_text = [&](std::string_view value) { put_text(writer, to_valid_utf8(value)); };
    const auto text = [&](const char* key, std::string_view value) {
        writer.Key(key);
        value_text(value);
    };
    writer.StartObject();
    writer.Key("schema");
    writer.Int(kSchema);
    writer.Key("pid");
    writer.Int(dump.process.pid);
    writer.Key("command");
    writer.StartArray();
    for (const std::string& word : dump.process.command) value_text(escape_control(word));
    writer.EndArray();
    text("python", dump.python);
    writer.Key("stopped_by");
    if (dump.stopped_by == StoppedBy::kNobody) {
        writer.Null();
    } else {
        writer.String(dump.stopped_by == StoppedBy::kSignal ? "signal" : "tracer");
    }
    writer.Key("broken_lists");
    writer.Uint(dump.broken_lists);
    writer.Key("unreadable_threads");
    writer.Uint(dump.unreadable_threads);
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
        write_frames(writer, thread.frames);
        writer.EndObject();
    }
    writer.EndArray();
    write_tasks(writer, dump);
    writer.EndObject();
    return json.line();
}

}  // namespace

Result<int> run_dump(const DumpSettings& settings) {
    const bool is_live = settings.replay.empty();
    auto opened = is_live ? open_live_target(settings.pid) : open_snapshot(settings.replay);
    if (!opened) return tl::unexpected(opened.error());
    std::optional<RecordingTarget> recorder;
    if (!settings.snapshot.empty()) recorder.emplace(**opened);
    Target& target = recorder ? static_cast<Target&>(*recorder) : **opened;
    auto process = PythonProcess::attach(target, {true, is_live ? kStartPatience : kStartPatience.zero()});
    if (!process) return tl::unexpected(process.error());
    const DumpOptions options{settings.nonblocking, true, settings.tasks, settings.native, settings.native_all};
    const auto dump = take_dump(target, *process, options);
    if (!dump) return tl::unexpected(dump.error());
    if (recorder) {
        const auto written = write_snapshot(recorder->snapshot(), settings.snapshot, invoking_owner());
        if (!written) return tl::unexpected(written.error());
    }
    const auto printed = print_out(settings.json ? json_of(*dump) : text_of(*dump, settings));
    if (!printed) return tl::unexpected(printed.error());
    return 0;
}

}  // namespace pyprof
