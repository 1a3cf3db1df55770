// SPDX-License-Identifier: Apache-2.0
#include "live/top_model.h"

#include "profile/merge.h"

#include <algorithm>
#include <map>
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

// Threads that have native frames only, where these are not shown.
void leave_out_empty_stacks(ResolvedProfile& profile) {
    const auto is_empty = [&](const auto& what) {
        return what.node == 0 || (profile.facts.with_threads && profile.nodes[what.node].parent == 0);
    };
    for (const ResolvedProfile::Weight& weight : profile.weights) profile.total_samples -= is_empty(weight) ? weight.samples : 0;
    profile.weights.erase(std::remove_if(profile.weights.begin(), profile.weights.end(), is_empty), profile.weights.end());
    profile.spans.erase(std::remove_if(profile.spans.begin(), profile.spans.end(), is_empty), profile.spans.end());
}

// The threads of one process, recorded more than once.
void join_threads(ResolvedProfile& profile) {
    std::map<std::pair<std::uint64_t, std::string>, ThreadIndex> known;
    std::vector<ProfiledThread> threads;
    std::vector<ThreadIndex> index;
    for (ProfiledThread& thread : profile.threads) {
        const auto [entry, is_new] = known.try_emplace({thread.native_id, thread.name}, static_cast<ThreadIndex>(threads.size()));
        index.push_back(entry->second);
        if (is_new) threads.push_back(std::move(thread));
    }
    if (threads.size() == profile.threads.size()) {
        profile.threads = std::move(threads);
        return;
    }
    profile.threads = std::move(threads);
    std::map<std::pair<ThreadIndex, std::uint32_t>, std::size_t> weight_of;
    std::vector<ResolvedProfile::Weight> weights;
    for (ResolvedProfile::Weight weight : profile.weights) {
        weight.thread = index[weight.thread];
        const auto [entry, is_new] = weight_of.try_emplace({weight.thread, weight.node}, weights.size());
        if (is_new) {
            weights.push_back(weight);
            continue;
        }
        weights[entry->second].samples += weight.samples;
        weights[entry->second].time += weight.time;
    }
    profile.weights = std::move(weights);
    for (ResolvedProfile::Span& span : profile.spans) span.thread = index[span.thread];
}

}  // namespace

TopModel::Each TopModel::fresh(const std::shared_ptr<StackTable>& stacks) {
    Each each;
    for (auto& counted : each) counted = std::make_shared<Counted>(stacks);
    return each;
}

void TopModel::begin(const Profile& source, std::shared_ptr<StackTable> stacks, std::shared_ptr<NativeNames> natives, std::chrono::nanoseconds when) {
    if (parts_.empty()) counts_from_ = when;
    Part part;
    part.source = &source;
    part.facts = source.facts;
    part.stacks = std::move(stacks);
    part.natives = std::move(natives);
    part.began = when;
    part.all = fresh(part.stacks);
    part.current = fresh(part.stacks);
    part.last = fresh(part.stacks);
    parts_.push_back(std::move(part));
}

void TopModel::end() {
    take_threads(parts_.back());
    parts_.back().source = nullptr;
}

// Threads come while it records, and their names later still.
void TopModel::take_threads(Part& part) {
    if (part.source != nullptr) part.threads = part.source->threads();
}

void TopModel::add(const SampleRecord& record) {
    Part& part = parts_.back();
    if (record.thread >= part.threads.size()) take_threads(part);
    const auto add_to = [&](Counted& counted) {
        Profile& profile = counted.profile;
        while (profile.threads().size() <= record.thread) profile.add_thread(part.threads[profile.threads().size()]);
        const std::size_t weight = profile.add(record.thread, record.stack, record.samples, record.weight, record.when);
        counted.series.add(record, static_cast<std::uint32_t>(weight));
    };
    for (const WhichThreads which : kEach) {
        if (!belongs(record, which)) continue;
        add_to(*part.all[index_of(which)]);
        add_to(*part.current[index_of(which)]);
    }
    part.log.add(record);
}

void TopModel::end_interval() {
    for (Part& part : parts_) {
        take_threads(part);
        part.last = std::move(part.current);
        part.current = fresh(part.stacks);
    }
}

void TopModel::reset(std::chrono::nanoseconds when) {
    counts_from_ = when;
    parts_.erase(std::remove_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.source == nullptr; }), parts_.end());
    for (Part& part : parts_) {
        part.all = fresh(part.stacks);
        part.current = fresh(part.stacks);
        part.last = fresh(part.stacks);
        part.log.clear();
    }
}

void TopModel::describe(Profile& profile, const Part& part, const Choice& choice) {
    for (ThreadIndex thread = 0; thread < profile.threads().size(); ++thread) {
        profile.name_thread(thread, part.threads[thread].name);  // it may have got one meanwhile
    }
    profile.facts = part.facts;
    profile.facts.which_threads = name_of(choice.which);
    profile.facts.with_lines = true;
    profile.facts.with_threads = choice.per_thread;
}

TopSource TopModel::source_of(const Part& part, const std::shared_ptr<Counted>& counted, const Choice& choice) {
    TopSource source;
    describe(counted->profile, part, choice);
    ResolveOptions options;
    options.natives = choice.with_native ? part.natives.get() : nullptr;
    options.node_of_weight = &source.node_of_key;
    source.profile = resolve(counted->profile, options);
    source.series = std::shared_ptr<const SampleSeries>(counted, &counted->series);
    return source;
}

std::vector<TopSource> TopModel::last_interval(const Choice& choice) const {
    std::vector<TopSource> sources;
    for (const Part& part : parts_) {
        if (part.last[index_of(choice.which)]->profile.empty()) continue;
        sources.push_back(source_of(part, part.last[index_of(choice.which)], choice));
    }
    return sources;
}

std::vector<TopSource> TopModel::since_start(const Choice& choice) const {
    std::vector<TopSource> sources;
    for (const Part& part : parts_) sources.push_back(source_of(part, part.all[index_of(choice.which)], choice));
    return sources;
}

bool TopModel::has_order() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.log.is_whole(); });
}

ResolvedProfile TopModel::whole(const Choice& choice, bool full_filenames, bool in_order) const {
    ResolvedProfile whole;
    for (const Part& part : parts_) {
        Profile ordered(part.stacks, true);
        const bool is_ordered = in_order && has_order();
        for (std::size_t i = 0; is_ordered && i < part.log.records().size(); ++i) {
            const SampleRecord& record = part.log.records()[i];
            if (!belongs(record, choice.which)) continue;
            while (ordered.threads().size() <= record.thread) ordered.add_thread(part.threads[ordered.threads().size()]);
            ordered.add(record.thread, record.stack, record.samples, record.weight, record.when);
        }
        Profile& profile = is_ordered ? ordered : part.all[index_of(choice.which)]->profile;
        describe(profile, part, choice);
        ResolvedProfile one = resolve(profile, {full_filenames, choice.with_native ? part.natives.get() : nullptr});
        leave_out_empty_stacks(one);
        // Times are told from the moment on from which it is counted.
        for (ResolvedProfile::Span& span : one.spans) span.begin = std::max(span.begin + part.began - counts_from_, std::chrono::nanoseconds{0});
        if (&part == &parts_.front()) {
            whole = std::move(one);
        } else {
            merge(whole, one, std::chrono::nanoseconds{0});
        }
    }
    join_threads(whole);
    if (has_waiting_tasks() && choice.which == WhichThreads::kAll) whole.facts.tasks_base = "task-seconds";
    return whole;
}

std::uint64_t TopModel::total_samples(WhichThreads which) const {
    std::uint64_t total = 0;
    for (const Part& part : parts_) total += part.all[index_of(which)]->profile.total_samples();
    return total;
}

bool TopModel::has_waiting_tasks() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return !part.facts.tasks_base.empty(); });
}

}  // namespace pyprof
