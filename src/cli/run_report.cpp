// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include "output/json_writer.h"

#include <fmt/format.h>

#include <cstdio>
#include <ostream>
#include <unistd.h>

namespace pyprof {

namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Progress::Progress(bool wanted) : is_on_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void Progress::show(const RunFigures& figures) {
    if (!is_on_) return;
    fmt::print(stderr, "\r\x1b[K{:.1f} s, {} samples, {:.1f}/s, {} truncated, {} refused, {} late", seconds(figures.elapsed),
               figures.samples + figures.reused, reached_rate(figures), figures.truncated, figures.refused, figures.late);
    std::fflush(stderr);
    is_shown_ = true;
}

void Progress::clear() {
    if (!is_shown_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    is_shown_ = false;
}

double reached_rate(const RunFigures& figures) {
    const double elapsed = seconds(figures.elapsed);
    return elapsed > 0 ? static_cast<double>(figures.busiest_thread_samples) / elapsed : 0;
}

std::string closing_line(const ResolvedProfile& profile, std::size_t python_children, const std::string& output) {
    const RunFigures& f = profile.figures;
    const double elapsed = seconds(f.elapsed);
    std::string text = fmt::format(
        "pyprof: {}: {} samples of {} threads{} in {:.1f} s ({:.1f}/s for the busiest), {} distinct stacks", output,
        profile.total_samples, profile.facts.which_threads,
        profile.facts.tasks_base.empty() ? "" : " and of waiting tasks (" + profile.facts.tasks_base + ")", elapsed,
        reached_rate(f), profile.weights.size());
    if (f.tasks_unlinked > 0) text += fmt::format(", {} without the tasks that wait for them", f.tasks_unlinked);
    if (f.tasks_inferred > 0) text += fmt::format(", {} below an inferred task", f.tasks_inferred);
    if (f.tasks_torn > 0) text += fmt::format(", {} task stacks refused", f.tasks_torn);
    if (f.truncated > 0) text += fmt::format(", {} truncated ({:.2f} %)", f.truncated, share(f.truncated, profile.total_samples));
    if (f.inferred > 0) text += fmt::format(", {} inferred", f.inferred);
    if (f.refused > 0) text += fmt::format(", {} refused", f.refused);
    if (f.unknown > 0) text += fmt::format(", {} of threads in an unknown state left out", f.unknown);
    if (100 * f.frameless > f.frameless + profile.total_samples) {
        text += fmt::format(", {} of running threads without a Python frame left out", f.frameless);
    }
    if (f.late > 0) text += fmt::format(", {} late ({:.1f} % of all ticks)", f.late, share(f.late, f.late + f.ticks));
    if (f.paused.count() > 0) text += fmt::format(", {:.1f} s in which pyprof stood still and nothing was looked at", seconds(f.paused));
    if (f.held_back > 0) text += fmt::format(", {} held back to spare the program ({:.1f} % of all ticks)", f.held_back, share(f.held_back, f.held_back + f.ticks));
    if (f.lost > 0) text += fmt::format(", {} lost", f.lost);
    if (f.looks > 0) text += fmt::format(", {} more looks at new code", f.looks);
    if (f.stops > 0) text += fmt::format(", {} short stops ({:.1f} ms in all)", f.stops, 1000 * seconds(f.stopped));
    if (f.native_cut > 0) text += fmt::format(", {} native stacks cut", f.native_cut);
    if (f.native_unplaced > 0) text += fmt::format(", {} with Python frames of no native one", f.native_unplaced);
    if (f.native_none > 0) text += fmt::format(", {} without a native stack", f.native_none);
    if (f.errors > 0) text += fmt::format(", {} read errors", f.errors);
    if (python_children > 0) text += fmt::format(", {} Python children not profiled", python_children);
    if (elapsed > 0) text += fmt::format("; pyprof used {:.1f} % of a processor", 100 * seconds(f.profiler_cpu) / elapsed);
    if (elapsed > 0 && disturbs_program(profile.facts.rate_hz)) text += "; above 20 kHz the program is disturbed";
    return text;
}

void write_stats(const ResolvedProfile& profile, std::size_t python_children, std::ostream& out) {
    const RunFigures& f = profile.figures;
    JsonStream stream(out);
    PrettyJsonWriter writer(stream);
    writer.SetIndent(' ', 2);
    const auto count = [&](const char* key, std::uint64_t value) {
        writer.Key(key);
        writer.Uint64(value);
    };
    const auto real = [&](const char* key, double value) {
        writer.Key(key);
        writer.Double(value);
    };
    writer.StartObject();
    writer.Key("schema");
    writer.Int(1);
    count("ticks", f.ticks);
    count("samples", f.samples);
    count("reused", f.reused);
    count("truncated", f.truncated);
    count("inferred", f.inferred);
    count("second_readings", f.second_readings);
    count("refused", f.refused);
    count("unknown", f.unknown);
    count("frameless", f.frameless);
    count("late", f.late);
    count("held_back", f.held_back);
    count("errors", f.errors);
    count("lost", f.lost);
    count("looks", f.looks);
    count("stops", f.stops);
    count("native", f.native);
    count("native_cut", f.native_cut);
    count("native_cut_code", f.native_cut_code);
    count("native_cut_register", f.native_cut_register);
    count("native_cut_copy", f.native_cut_copy);
    count("native_cut_rule", f.native_cut_rule);
    count("native_cut_depth", f.native_cut_depth);
    count("native_unplaced", f.native_unplaced);
    count("native_none", f.native_none);
    real("stopped_s", seconds(f.stopped));
    real("longest_stop_s", seconds(f.longest_stop));
    real("first_sample_s", seconds(f.first_sample));
    real("elapsed_s", seconds(f.elapsed));
    real("paused_s", seconds(f.paused));
    real("rate_hz", reached_rate(f));
    real("profiler_cpu_s", seconds(f.profiler_cpu));
    count("remote_reads", f.remote_reads);
    count("remote_bytes", f.remote_bytes);
    count("task_looks", f.task_looks);
    count("most_tasks", f.most_tasks);
    count("task_samples", f.task_samples);
    count("tasks_torn", f.tasks_torn);
    count("tasks_unlinked", f.tasks_unlinked);
    count("tasks_inferred", f.tasks_inferred);
    writer.Key("disturbs_program");
    writer.Bool(disturbs_program(profile.facts.rate_hz));
    count("distinct_stacks", profile.weights.size());
    count("python_children", python_children);
    writer.EndObject();
    out << '\n';
}

}  // namespace pyprof
