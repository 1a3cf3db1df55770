// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include "output/describe.h"
#include "output/json_writer.h"
#include "output/run_figures.h"

#include <fmt/format.h>

#include <cstdio>
#include <ostream>
#include <unistd.h>

namespace pyprof {

namespace {

constexpr std::chrono::milliseconds kShortestPauseTold{50};  // of the closing line; --stats has all

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
    if (f.paused >= kShortestPauseTold) text += fmt::format(", {:.1f} s in which pyprof stood still and nothing was looked at", seconds(f.paused));
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
    JsonStream stream(out);
    PrettyJsonWriter writer(stream);
    writer.SetIndent(' ', 2);
    writer.StartObject();
    writer.Key("schema");
    writer.Int(1);
    put_figures(writer, profile);
    writer.Key("python_children");
    writer.Uint64(python_children);
    writer.EndObject();
    out << '\n';
}

}  // namespace pyprof
