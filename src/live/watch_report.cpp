// SPDX-License-Identifier: Apache-2.0
#include "live/watch_report.h"

#include "base/text.h"
#include "live/text_width.h"
#include "output/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr int kSchema = 1;
constexpr int kWidestLabel = 60;

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

constexpr std::size_t kColumns = 8;
using Line = std::array<std::string, kColumns>;

Line line_of(const WatchRow& row, std::uint64_t base, const std::string& indent) {
    return {indent + cut_end(escape_control(row.label), kWidestLabel),
            with_error(row.own),
            fmt::format("{:.1f}", share(row.own.samples, base)),
            with_error(row.total),
            fmt::format("{:.1f}", share(row.total.samples, base)),
            fmt::format("{}", row.total.samples),
            fmt::format("{:.2f}", seconds(row.first)),
            fmt::format("{:.2f}", seconds(row.last))};
}

std::string not_seen(const WatchEntry& entry) {
    std::string text = fmt::format("{}: not seen yet", escape_control(entry.name));
    for (std::size_t i = 0; i < entry.near_misses.size(); ++i) {
        text += fmt::format("{}{}", i == 0 ? "; seen: " : ", ", escape_control(entry.near_misses[i]));
    }
    return text + "\n";
}

std::string table_of(const std::vector<Line>& lines) {
    std::array<int, kColumns> widths{};
    for (const Line& line : lines) {
        for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], columns_of(line[i]));
    }
    std::string text;
    for (const Line& line : lines) {
        for (std::size_t i = 0; i < kColumns; ++i) {
            const std::string blanks(static_cast<std::size_t>(widths[i] - columns_of(line[i])), ' ');
            text += i == 0 ? line[i] + blanks : "  " + blanks + line[i];
        }
        text += '\n';
    }
    return text;
}

void put(JsonWriter& writer, const char* key, std::string_view text) {
    writer.Key(key);
    put_text(writer, text);
}

void put(JsonWriter& writer, const char* key, double number) {
    writer.Key(key);
    writer.Double(number);
}

void put(JsonWriter& writer, const char* key, std::uint64_t number) {
    writer.Key(key);
    writer.Uint64(number);
}

void put_row(JsonWriter& writer, const WatchRow& row, std::uint64_t base) {
    put(writer, "function", row.label);
    put(writer, "own_s", seconds(row.own.time));
    put(writer, "own_error_s", row.own.error_s);
    put(writer, "own_samples", row.own.samples);
    put(writer, "own_percent", share(row.own.samples, base));
    put(writer, "total_s", seconds(row.total.time));
    put(writer, "total_error_s", row.total.error_s);
    put(writer, "total_samples", row.total.samples);
    put(writer, "total_percent", share(row.total.samples, base));
    put(writer, "first_seen_s", seconds(row.first));
    put(writer, "last_seen_s", seconds(row.last));
}

void put_entry(JsonWriter& writer, const WatchEntry& entry, std::uint64_t base) {
    writer.StartObject();
    put(writer, "name", entry.name);
    writer.Key("seen");
    writer.Bool(entry.sum.has_value());
    put(writer, "matches", std::uint64_t{entry.matches});
    if (entry.sum) {
        put_row(writer, *entry.sum, base);
    } else {
        writer.Key("near_misses");
        writer.StartArray();
        for (const std::string& near : entry.near_misses) put_text(writer, near);
        writer.EndArray();
    }
    if (!entry.functions.empty()) {
        writer.Key("functions");
        writer.StartArray();
        for (const WatchRow& row : entry.functions) {
            writer.StartObject();
            put_row(writer, row, base);
            writer.EndObject();
        }
        writer.EndArray();
    }
    writer.EndObject();
}

}  // namespace

std::string with_error(const WatchTime& time) {
    const double error = time.error_s;
    if (!(error > 0)) return fmt::format("{:.3f}", seconds(time.time));
    const int digits = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 6);
    return fmt::format("{:.{}f} ± {:.{}f}", seconds(time.time), digits, error, digits);
}

std::string results_text(const WatchResults& results) {
    if (results.processes.empty()) return "nothing was sampled yet\n";
    std::string text;
    std::vector<Line> lines{{"function", "own s", "own %", "total s", "total %", "samples", "first s", "last s"}};
    std::string unseen;
    for (const WatchEntry& entry : results.entries) {
        if (!entry.sum) {
            unseen += not_seen(entry);
            continue;
        }
        WatchRow sum = *entry.sum;
        if (entry.matches > 1) sum.label += fmt::format(" ({} functions)", entry.matches);
        lines.push_back(line_of(sum, results.samples, ""));
        for (const WatchRow& row : entry.functions) lines.push_back(line_of(row, results.samples, "  "));
    }
    if (lines.size() > 1) text += table_of(lines);
    text += unseen;
    if (results.entries.empty()) text += "no functions are named: add NAME\n";
    text += fmt::format("100 % are {} samples of {} threads: {:.2f} s of thread time in {:.2f} s", results.samples,
                        results.processes.back().which_threads, seconds(results.thread_time), seconds(results.sampled));
    if (results.processes.size() > 1) text += fmt::format(", {} recordings", results.processes.size());
    text += "; ± is one standard error\n";
    if (results.unproved > 0) {
        text += fmt::format("{} samples ({:.2f} %) have no proved path: a total may be low by them\n", results.unproved,
                            share(results.unproved, results.samples));
    }
    return text;
}

std::string results_json(const WatchResults& results, std::string_view event) {
    JsonText json;
    JsonWriter writer(json.stream());
    writer.StartObject();
    put(writer, "schema", std::uint64_t{kSchema});
    put(writer, "event", event);
    put(writer, "sampled_s", seconds(results.sampled));
    put(writer, "samples", results.samples);
    put(writer, "thread_s", seconds(results.thread_time));
    put(writer, "threads", results.processes.empty() ? "" : results.processes.back().which_threads);
    put(writer, "unproved", results.unproved);
    put(writer, "refused", results.figures.refused);
    put(writer, "late", results.figures.late);
    writer.Key("processes");
    writer.StartArray();
    for (const ProfileFacts& facts : results.processes) {
        writer.StartObject();
        put(writer, "pid", static_cast<std::uint64_t>(facts.pid));
        put(writer, "python", facts.python);
        writer.EndObject();
    }
    writer.EndArray();
    writer.Key("names");
    writer.StartArray();
    for (const WatchEntry& entry : results.entries) put_entry(writer, entry, results.samples);
    writer.EndArray();
    writer.EndObject();
    return json.line();
}

}  // namespace pyprof
