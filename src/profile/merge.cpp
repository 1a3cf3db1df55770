// SPDX-License-Identifier: Apache-2.0
#include "profile/merge.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pyprof {

namespace {

using FrameKey = std::tuple<FrameKind, std::string, std::string, std::string, std::int32_t, std::string>;

FrameKey key_of(const ResolvedProfile::Frame& frame) {
    return {frame.kind, frame.name, frame.file, frame.full_file, frame.line, frame.module};
}

using Count = std::uint64_t RunFigures::*;
constexpr Count kCounts[] = {&RunFigures::ticks,          &RunFigures::samples,         &RunFigures::reused,
                             &RunFigures::truncated,      &RunFigures::inferred,        &RunFigures::refused,
                             &RunFigures::unknown,        &RunFigures::late,            &RunFigures::errors,
                             &RunFigures::lost,           &RunFigures::stops,           &RunFigures::native,
                             &RunFigures::native_cut,     &RunFigures::native_unplaced, &RunFigures::native_none,
                             &RunFigures::remote_reads,   &RunFigures::remote_bytes,    &RunFigures::busiest_thread_samples,
                             &RunFigures::thread_looks,   &RunFigures::running_looks,   &RunFigures::gil_ticks,
                             &RunFigures::task_looks,     &RunFigures::task_samples,    &RunFigures::tasks_torn,
                             &RunFigures::tasks_unlinked, &RunFigures::tasks_inferred,   &RunFigures::looks,
                             &RunFigures::held_back,      &RunFigures::second_readings, &RunFigures::native_cut_code,
                             &RunFigures::native_cut_register, &RunFigures::native_cut_copy, &RunFigures::native_cut_rule,
                             &RunFigures::native_cut_depth,    &RunFigures::frameless};

// The index in `into` of each frame of `from`.
std::vector<std::uint32_t> add_frames(ResolvedProfile& into, const ResolvedProfile& from) {
    std::map<FrameKey, std::uint32_t> known;
    for (std::size_t i = 0; i < into.frames.size(); ++i) known.emplace(key_of(into.frames[i]), static_cast<std::uint32_t>(i));
    std::vector<std::uint32_t> indices;
    for (const ResolvedProfile::Frame& frame : from.frames) {
        const auto [entry, is_new] = known.emplace(key_of(frame), static_cast<std::uint32_t>(into.frames.size()));
        if (is_new) into.frames.push_back(frame);
        indices.push_back(entry->second);
    }
    return indices;
}

// The same of nodes. A parent's index is lower than its child's, so one pass is enough.
std::vector<std::uint32_t> add_nodes(ResolvedProfile& into, const ResolvedProfile& from) {
    const std::vector<std::uint32_t> frames = add_frames(into, from);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
    for (std::size_t i = 1; i < into.nodes.size(); ++i) {
        known.emplace(std::pair(into.nodes[i].parent, into.nodes[i].frame), static_cast<std::uint32_t>(i));
    }
    if (into.nodes.empty()) into.nodes.emplace_back();
    std::vector<std::uint32_t> indices{0};
    for (std::size_t i = 1; i < from.nodes.size(); ++i) {
        const std::pair key(indices[from.nodes[i].parent], frames[from.nodes[i].frame]);
        const auto [entry, is_new] = known.emplace(key, static_cast<std::uint32_t>(into.nodes.size()));
        if (is_new) into.nodes.push_back({key.first, key.second});
        indices.push_back(entry->second);
    }
    return indices;
}

}  // namespace

void add_figures(RunFigures& into, const RunFigures& from) {
    for (const Count count : kCounts) into.*count += from.*count;
    into.most_tasks = std::max(into.most_tasks, from.most_tasks);
    if (into.first_sample.count() == 0) into.first_sample = from.first_sample;
    into.elapsed += from.elapsed;
    into.paused += from.paused;
    into.stopped += from.stopped;
    into.longest_stop = std::max(into.longest_stop, from.longest_stop);
    into.profiler_cpu = std::max(into.profiler_cpu, from.profiler_cpu);  // of the whole of pyprof each time
}

RunFigures difference(const RunFigures& later, const RunFigures& earlier) {
    RunFigures result = later;
    for (const Count count : kCounts) result.*count -= std::min(later.*count, earlier.*count);
    result.elapsed -= earlier.elapsed;
    result.paused -= earlier.paused;
    result.stopped -= earlier.stopped;
    result.profiler_cpu -= earlier.profiler_cpu;
    return result;
}

void merge(ResolvedProfile& into, const ResolvedProfile& from, std::chrono::nanoseconds later) {
    const std::vector<std::uint32_t> nodes = add_nodes(into, from);
    const auto first_thread = static_cast<ThreadIndex>(into.threads.size());
    into.threads.insert(into.threads.end(), from.threads.begin(), from.threads.end());
    for (ResolvedProfile::Weight weight : from.weights) {
        weight.thread += first_thread;
        weight.node = nodes[weight.node];
        into.weights.push_back(weight);
    }
    for (ResolvedProfile::Span span : from.spans) {
        span.thread += first_thread;
        span.node = nodes[span.node];
        span.begin += later;
        into.spans.push_back(span);
    }
    into.total_samples += from.total_samples;
    add_figures(into.figures, from.figures);
    if (into.facts.python.find(from.facts.python) == std::string::npos) into.facts.python += ", then " + from.facts.python;
}

}  // namespace pyprof
