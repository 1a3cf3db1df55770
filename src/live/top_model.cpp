// SPDX-License-Identifier: Apache-2.0
#include "live/top_model.h"

#include <utility>

namespace pyprof {

namespace {

constexpr WhichThreads kEach[] = {WhichThreads::kRunning, WhichThreads::kAll, WhichThreads::kGilHolder};

std::size_t index_of(WhichThreads which) { return static_cast<std::size_t>(which); }

bool belongs(const SampleRecord& record, WhichThreads which) {
    switch (which) {
        case WhichThreads::kRunning:
            return record.marks.is_running;
        case WhichThreads::kGilHolder:
            return record.marks.holds_gil;
        case WhichThreads::kAll:
            break;
    }
    return true;
}

}  // namespace

const char* name_of(WhichThreads which) {
    switch (which) {
        case WhichThreads::kAll:
            return "all";
        case WhichThreads::kGilHolder:
            return "GIL-holding";
        case WhichThreads::kRunning:
            break;
    }
    return "running";
}

TopModel::TopModel(const Profile& source, std::shared_ptr<StackTable> stacks)
    : source_(source), stacks_(std::move(stacks)), all_(fresh()), current_(fresh()), last_(fresh()) {}

TopModel::Profiles TopModel::fresh() const {
    Profiles profiles;
    for (auto& profile : profiles) profile = std::make_unique<Profile>(stacks_);
    return profiles;
}

void TopModel::add_to(Profile& profile, const Profile& source, const SampleRecord& record) {
    while (profile.threads().size() <= record.thread) profile.add_thread(source.threads()[profile.threads().size()]);
    profile.add(record.thread, record.stack, record.samples, record.weight, record.when);
}

void TopModel::add(const SampleRecord& record) {
    for (const WhichThreads which : kEach) {
        if (!belongs(record, which)) continue;
        add_to(*all_[index_of(which)], source_, record);
        add_to(*current_[index_of(which)], source_, record);
    }
}

void TopModel::end_interval() {
    last_ = std::move(current_);
    current_ = fresh();
}

void TopModel::reset() {
    all_ = fresh();
    current_ = fresh();
    last_ = fresh();
}

ResolvedProfile TopModel::resolved(Profile& profile, WhichThreads which, bool per_thread, bool full_filenames) const {
    for (ThreadIndex thread = 0; thread < profile.threads().size(); ++thread) {
        profile.name_thread(thread, source_.threads()[thread].name);  // it may have got one meanwhile
    }
    profile.facts = source_.facts;
    profile.facts.which_threads = name_of(which);
    profile.facts.with_lines = true;
    profile.facts.with_threads = per_thread;
    return resolve(profile, {full_filenames});
}

ResolvedProfile TopModel::last_interval(WhichThreads which, bool per_thread) const {
    return resolved(*last_[index_of(which)], which, per_thread, false);
}

ResolvedProfile TopModel::since_start(WhichThreads which, bool per_thread, bool full_filenames) const {
    return resolved(*all_[index_of(which)], which, per_thread, full_filenames);
}

std::uint64_t TopModel::total_samples(WhichThreads which) const { return all_[index_of(which)]->total_samples(); }

RunFigures difference(const RunFigures& later, const RunFigures& earlier) {
    RunFigures result = later;
    using Count = std::uint64_t RunFigures::*;
    for (const Count count : {&RunFigures::ticks, &RunFigures::samples, &RunFigures::reused, &RunFigures::truncated,
                              &RunFigures::inferred, &RunFigures::refused, &RunFigures::late, &RunFigures::errors,
                              &RunFigures::lost, &RunFigures::stops, &RunFigures::remote_reads, &RunFigures::remote_bytes,
                              &RunFigures::busiest_thread_samples, &RunFigures::thread_looks, &RunFigures::running_looks,
                              &RunFigures::gil_ticks}) {
        result.*count = later.*count - earlier.*count;
    }
    result.elapsed = later.elapsed - earlier.elapsed;
    result.profiler_cpu = later.profiler_cpu - earlier.profiler_cpu;
    result.stopped = later.stopped - earlier.stopped;
    return result;
}

}  // namespace pyprof
