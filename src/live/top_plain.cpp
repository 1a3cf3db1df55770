// SPDX-License-Identifier: Apache-2.0
#include "live/top_plain.h"

#include "base/text.h"
#include "live/top_model.h"
#include "live/top_screen.h"
#include "output/json_writer.h"

#include <fmt/format.h>

namespace pyprof {

namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::string plain_table(const TopData& data, const TopView& view, const std::vector<TopLine>& lines, std::size_t most_rows) {
    const TopCount& now = data.tree.nodes.front().now;
    const TopFacts& f = data.facts;
    std::string text = fmt::format("{} {}  {:.1f} s, {:.1f}/s, {} refused, {} late of {}", f.pid, escape_control(f.command), seconds(f.elapsed),
                                   f.reached_hz, f.refused, f.late, f.ticks + f.late);
    if (f.gil_share) text += fmt::format(", GIL {:.0f} % of looks", *f.gil_share);
    text += "\n" + base_text(data) + "\n  %own %total       own     total  function\n";
    const auto share = [](std::uint64_t n, std::uint64_t base) { return base == 0 ? std::string("-") : fmt::format("{:.1f}", share_of(n, base)); };
    std::size_t rows = 0;
    for (const TopLine& line : lines) {
        if (most_rows > 0 && rows++ == most_rows) break;
        const std::string where = line.where.empty() ? "" : " (" + line.where + ")";
        text += fmt::format("{:>6} {:>6} {:>9} {:>9}  {:{}}{}\n", share(line.now.own, now.total), share(line.now.total, now.total),
                            time_text(line.all.own_time), time_text(line.all.total_time), "", 2 * line.depth, escape_control(line.name + where));
        if (!view.with_errors) continue;
        text += fmt::format("{:>6} {:>6} {:>9} {:>9}    standard errors\n", fmt::format("±{:.1f}", line.errors.own_percent),
                            fmt::format("±{:.1f}", line.errors.total_percent), "±" + time_text(line.errors.own_time),
                            "±" + time_text(line.errors.total_time));
    }
    return text + "\n";
}

std::string json_line(const TopData& data, const TopView& view, const std::vector<TopLine>& lines) {
    const TopCount& now = data.tree.nodes.front().now;
    const TopCount& all = data.tree.nodes.front().all;
    const TopFacts& f = data.facts;
    JsonText made;
    JsonWriter json(made.stream());
    const auto text = [&](const char* key, const std::string& value) {
        json.Key(key);
        put_text(json, value);
    };
    const auto count = [&](const char* key, std::uint64_t value) {
        json.Key(key);
        json.Uint64(value);
    };
    const auto real = [&](const char* key, double value) {
        json.Key(key);
        json.Double(value);
    };
    json.StartObject();
    count("schema", 1);
    count("pid", static_cast<std::uint64_t>(f.pid));
    text("python", f.python);
    text("threads", name_of(data.which));
    json.Key("native");
    json.Bool(view.with_native);
    text("async", view.async == AsyncMode::kAll ? "all" : view.async == AsyncMode::kRunning ? "running" : "off");
    real("elapsed_s", seconds(f.elapsed));
    real("interval_s", seconds(f.interval));
    real("rate_hz", f.reached_hz);
    count("refused", f.refused);
    count("late", f.late);
    count("lost", f.lost);
    if (f.gil_share) real("gil_percent", *f.gil_share);
    real("running_threads", f.running);
    if (f.processors_used) real("processors_used", *f.processors_used);
    if (f.resident_bytes) count("resident_bytes", *f.resident_bytes);
    count("interval_samples", now.total);
    count("total_samples", all.total);
    real("total_time_s", seconds(all.total_time));
    json.Key("rows");
    json.StartArray();
    std::string thread;
    for (const TopLine& line : lines) {
        if (line.is_thread) {
            thread = line.name;
            continue;
        }
        json.StartObject();
        if (!thread.empty()) text("thread", thread);
        text("function", line.name);
        text("where", line.where);
        count("own_samples", line.now.own);
        count("total_samples", line.now.total);
        real("own_time_s", seconds(line.all.own_time));
        real("total_time_s", seconds(line.all.total_time));
        if (view.with_errors) {
            real("own_percent_error", line.errors.own_percent);
            real("total_percent_error", line.errors.total_percent);
            real("own_time_error_s", seconds(line.errors.own_time));
            real("total_time_error_s", seconds(line.errors.total_time));
        }
        json.EndObject();
    }
    json.EndArray();
    json.EndObject();
    return made.line();
}

}  // namespace pyprof
