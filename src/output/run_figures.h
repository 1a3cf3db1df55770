// SPDX-License-Identifier: Apache-2.0
//
// A recording's own figures as members of a JSON object: the same in --stats and in every format that can carry them.
// What they mean stands in docs/how-it-works.md.
#pragma once

#include "output/describe.h"

#include <pyprof/profile.h>

#include <chrono>
#include <cstdint>

namespace pyprof {

// Into an object that the caller has begun and ends.
template <class Writer>
void put_figures(Writer& writer, const ResolvedProfile& profile) {
    const RunFigures& f = profile.figures;
    const auto count = [&](const char* key, std::uint64_t value) {
        writer.Key(key);
        writer.Uint64(value);
    };
    const auto real = [&](const char* key, double value) {
        writer.Key(key);
        writer.Double(value);
    };
    const auto time = [&](const char* key, std::chrono::nanoseconds value) { real(key, std::chrono::duration<double>(value).count()); };
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
    time("stopped_s", f.stopped);
    time("longest_stop_s", f.longest_stop);
    time("first_sample_s", f.first_sample);
    time("elapsed_s", f.elapsed);
    time("paused_s", f.paused);
    real("rate_hz", reached_rate(f));
    time("profiler_cpu_s", f.profiler_cpu);
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
}

}  // namespace pyprof
