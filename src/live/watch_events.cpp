// SPDX-License-Identifier: Apache-2.0
#include "live/watch_events.h"

#include "base/text.h"
#include "output/json_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>

namespace pyprof {

namespace {

std::string json_line(const char* event, const std::function<void(JsonWriter&)>& fill) {
    JsonText json;
    JsonWriter writer(json.stream());
    writer.StartObject();
    writer.Key("schema");
    writer.Int(1);
    writer.Key("event");
    writer.String(event);
    fill(writer);
    writer.EndObject();
    return json.line();
}

void put(JsonWriter& writer, const char* key, const std::string& text) {
    writer.Key(key);
    put_text(writer, text);
}

void put(JsonWriter& writer, const char* key, std::uint64_t number) {
    writer.Key(key);
    writer.Uint64(number);
}

}  // namespace

std::string status_text(const WatchStatus& status) {
    if (!status.is_sampling) return fmt::format("nothing is being sampled; {} samples, {} names\n", status.samples, status.names);
    const RunFigures& figures = status.figures;
    return escape_control(fmt::format(
               "process {}: {}, Python {}; for {:.1f} s at {:.1f} of {} samples a second; {} refused, {} late, {} short stops; {} samples and {} names in all",
               status.pid, status.command, status.python, std::chrono::duration<double>(figures.elapsed).count(), status.reached_hz, status.rate_hz,
               figures.refused, figures.late, figures.stops, status.samples, status.names)) +
           "\n";
}

std::string status_json(const WatchStatus& status) {
    return json_line("status", [&](JsonWriter& writer) {
        writer.Key("sampling");
        writer.Bool(status.is_sampling);
        writer.Key("pid");
        writer.Int(status.pid);
        put(writer, "python", status.python);
        writer.Key("rate_hz");
        writer.Double(status.rate_hz);
        put(writer, "samples", status.samples);
        put(writer, "refused", status.figures.refused);
        put(writer, "late", status.figures.late);
        put(writer, "stops", status.figures.stops);
    });
}

std::string names_text(const std::vector<WatchName>& names) {
    std::string text;
    for (const WatchName& name : names) text += name.text() + "\n";
    return text.empty() ? "no names\n" : text;
}

std::string names_json(const std::vector<WatchName>& names) {
    return json_line("list", [&](JsonWriter& writer) {
        writer.Key("names");
        writer.StartArray();
        for (const WatchName& name : names) put_text(writer, name.text());
        writer.EndArray();
    });
}

std::string error_json(const Error& error) {
    return json_line("error", [&](JsonWriter& writer) {
        writer.Key("code");
        writer.Int(static_cast<int>(error.code));
        put(writer, "message", error.message);
        put(writer, "hint", error.hint);
    });
}

}  // namespace pyprof
