// SPDX-License-Identifier: Apache-2.0
#include "sample/sampler.h"

#include "sample/wait_marker.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kRefreshAtLeast = std::chrono::seconds(1);
constexpr nanoseconds kInferEvery = std::chrono::milliseconds(200);
// The mappings, some 0.1 ms: what is mapped at another's place bears its names until then.
constexpr nanoseconds kNativeRefresh = std::chrono::milliseconds(200);
// A thread that came too late to its stop is held until it is let go.
constexpr nanoseconds kSettleAgain = std::chrono::milliseconds(1);
constexpr nanoseconds kLongestSettled = std::chrono::seconds(1);

struct Slice {
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
};

// The smallest range that holds all fields that there are; each is at most 8 bytes long.
Slice slice_over(std::initializer_list<Offset> offsets) {
    Offset first = kAbsent;
    Offset last = kAbsent;
    for (const Offset offset : offsets) {
        if (!has(offset)) continue;
        first = has(first) ? std::min(first, offset) : offset;
        last = std::max(last, offset);
    }
    if (!has(first)) return {};
    return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last - first) + 8};
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

Sampler::Sampler(Target& target, PythonProcess& process, StackTable& stacks, const SamplerOptions& options, Sink& sink,
                 ThreadStopper* stopper)
    : target_(target),
      memory_(target.memory()),
      process_(process),
      layout_(process.layout()),
      shape_(process.layout()),
      stacks_(stacks),
      options_(options),
      sink_(sink),
      codes_(memory_, layout_, stacks),
      builder_(codes_, stacks, options.with_lines),
      prover_(memory_, layout_, shape_, codes_, stacks, builder_),
      mender_(shape_, codes_, stacks),
      epoch_(codes_, stacks, builder_),
      call_sites_(shape_),
      stopper_(stopper) {
    if (options_.async.mode != AsyncMode::kOff) {
        async_ = std::make_unique<AsyncSampler>(target_, layout_, stacks_, codes_, builder_, epoch_, options_.async);
        async_->set_sleeps_on([this](Address address) {
            const Thread* thread = thread_of(address);
            return thread != nullptr && stayed_blocked(*thread);
        });
        if (stopper_ != nullptr) {
            async_->set_hold([this](Address thread, const std::function<void()>& copy) { return hold(thread, copy); });
        }
    }
    const Layout::Interpreter& i = layout_.interpreter;
    const Offset holder = has(i.own_gil) ? i.own_gil + layout_.gil.last_holder : kAbsent;
    const Offset locked = has(i.own_gil) ? i.own_gil + layout_.gil.locked : kAbsent;
    const Slice slice = slice_over({i.threads_head, i.gc_collecting, holder, locked, i.code_object_generation});
    slice_begin_ = slice.begin;
    slice_bytes_ = slice.bytes;
    const Layout::Runtime& r = layout_.runtime;
    const Slice runtime = slice_over({r.gc_collecting, r.gil_last_holder, r.gil_locked, r.tstate_current});
    runtime_begin_ = runtime.begin;
    runtime_slice_.resize(runtime.bytes);
    if (options.natives == nullptr) return;
    no_stopper_ = std::make_unique<ThreadStopper>(TracedProcess{});
    native_ = std::make_unique<NativeStacks>(target, layout_, stacks, *options.natives, stopper == nullptr ? *no_stopper_ : *stopper);
}

// What became of one thread's read, before its frames are looked at.
bool Sampler::has_stack_to_show(Thread& thread, ThreadReader::Status status) {
    thread.has_last = false;
    thread.has_nothing = false;
    thread.shows_tasks_only = false;
    thread.status = status;
    if (status == ThreadReader::Status::kGone) {
        must_refresh_ = true;
        ++figures_.refused;
        return false;
    }
    thread.holds_gil = holds_gil(thread);
    is_gil_held_ |= thread.holds_gil;
    if (status == ThreadReader::Status::kNoFrame ||
        (options_.which == WhichThreads::kGilHolder && !thread.holds_gil && !has_chains_)) {
        thread.has_nothing = thread.seen == ThreadTriage::State::kBlocked;
        const bool is_asked_for = options_.which != WhichThreads::kGilHolder || thread.holds_gil;
        const bool runs = thread.seen == ThreadTriage::State::kRunning && thread.runner == &thread;
        if (runs && is_asked_for && !takes_natively(thread)) ++figures_.frameless;  // else see take_frameless()
        if (thread.is_inner && !copies_c_stacks()) thread.runner = named_runner(thread);
        return false;
    }
    return copies_c_stacks() || find_runner(thread);
}

void Sampler::take_thread(Thread& thread, ThreadReader::Status status, nanoseconds when, nanoseconds weight) {
    const bool had_last = thread.has_last;
    const bool is_asked = wants_sleeper(thread) && thread.seen != ThreadTriage::State::kRunning;
    if (!has_stack_to_show(thread, status)) return;
    if (thread.doubt_samples > 0) --thread.doubt_samples;
    Sampled sampled = assess(thread);
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    const bool has_path = !sampled.is_truncated && !sampled.is_leaf_alone;
    thread.wanted = sampled.is_known || !has_path ? kRootPath : sampled.path;
    if (stacks_.is_proved(sampled.path)) thread.wanted = kRootPath;
    looks_.note_sample();
    if (!sampled.is_known && moves) in_doubt_.push_back(&thread);
    // Where a stack is put together of several parts, the callers that are sure are those of one part.
    if (has_chains_ || (async_ != nullptr && async_->has_loop(thread.state.address))) sampled.sure_callers = kRootStack;
    if (is_asked) {
        if (sampled.is_known) {
            async_->note_sleeper(thread.state.address, *sampled.chain);
            thread.was_asked = true;
        }
        const bool is_recorded = thread.seen == ThreadTriage::State::kStillBlocked && had_last;  // by its last sample
        if (is_recorded) thread.has_last = true;
        if (is_recorded || options_.which == WhichThreads::kRunning) return;
    }
    if (async_ != nullptr && async_->has_loop(thread.state.address)) {
        loop_samples_.push_back({&thread, sampled});
    } else if (has_chains_) {
        chains_.push_back({&thread, sampled, {}});
    } else if (async_ != nullptr && sampled.chain != nullptr && async_->note_worker(thread.state.address, *sampled.chain, thread.reader)) {
        sampled.sure_callers = kRootStack;
        loop_samples_.push_back({&thread, sampled});
    } else {
        record_sampled(thread, sampled, thread.holds_gil && is_collecting(thread), when, weight);
    }
}

void Sampler::take_worker(LoopSample& taken, nanoseconds when, nanoseconds weight) {
    Thread& thread = *taken.thread;
    if (const auto spliced = async_->splice_worker(thread.state.address, *taken.sampled.chain)) {
        taken.sampled.stack = spliced->place.stack;
        taken.sampled.names = spliced->place.names;
    }
    record_sampled(thread, taken.sampled, thread.holds_gil && is_collecting(thread), when, weight);
    thread.has_last = false;  // what waits for it may change while it sleeps
}

// A thread that waits for events, and has not run since its frames were copied, stands in its loop.
void Sampler::learn_idle_stem(const Thread& thread, const StackBuilder::Chain& chain, const AsyncSampler::PlaceSteps& place) {
    if (!waits_for_events(thread.triage.activity()) || !thread.triage.stayed_blocked(target_)) return;
    async_->learn_idle_stem(thread.state.address, chain, place);
}

// What runs in a loop's thread hangs below what waits for it. An idle loop has nothing to show but its tasks.
void Sampler::take_loops(nanoseconds when, nanoseconds weight) {
    const bool with_waiting = options_.async.mode == AsyncMode::kAll;
    async_->forget_woken([&](Address address) {
        const Thread* thread = thread_of(address);
        return thread != nullptr && thread->seen == ThreadTriage::State::kStillBlocked;
    });
    for (LoopSample& taken : loop_samples_) {
        Thread& thread = *taken.thread;
        Sampled& sampled = taken.sampled;
        const bool moves = thread.seen == ThreadTriage::State::kRunning;
        if (taken.is_native) {
            thread.shows_tasks_only = !taken.is_spliced && sampled.chain != nullptr && with_waiting && !moves &&
                                      async_->is_at_rest(thread.state.address, *sampled.chain);
            const bool is_for_others = !with_waiting && !moves && options_.which == WhichThreads::kRunning;
            if (!thread.shows_tasks_only && !is_for_others) record_sampled(thread, sampled, false, when, weight);
            continue;
        }
        if (async_->is_worker(thread.state.address)) {
            take_worker(taken, when, weight);
            continue;
        }
        if (sampled.chain == nullptr) {
            async_->note_unlinked();
        } else if (const auto spliced = async_->splice(thread.state.address, *sampled.chain, version_of(thread))) {
            sampled.stack = spliced->place.stack;
            sampled.names = spliced->place.names;
        } else if (!moves) {
            learn_idle_stem(thread, *sampled.chain, {});
            thread.shows_tasks_only = with_waiting && async_->is_at_rest(thread.state.address, *sampled.chain);
            if (thread.shows_tasks_only) continue;
        }
        // One that sleeps was read for the sake of its own frames alone.
        if (!with_waiting && !moves && options_.which == WhichThreads::kRunning) continue;
        record_sampled(thread, sampled, thread.holds_gil && is_collecting(thread), when, weight);
    }
    for (const auto& thread : threads_) {
        if (!with_waiting || !async_->has_loop(thread->state.address)) continue;
        using State = ThreadTriage::State;
        if (thread->seen == State::kGone || thread->seen == State::kUnknown) continue;
        // One that sleeps within a step, or a callback, has a sample of its own, too, be it that of an earlier tick.
        const bool is_still = thread->seen == State::kStillBlocked;
        const bool has_own = thread->sampled_tick == figures_.ticks || (is_still && thread->has_last);
        const bool has_tasks = async_->record_waiting(thread->state.address, index_of(*thread), is_still, has_own);
        if (!thread->shows_tasks_only) continue;
        thread->has_nothing = thread->seen == State::kBlocked || thread->seen == State::kStillBlocked;
        if (has_tasks || options_.which == WhichThreads::kRunning) continue;
        for (const LoopSample& taken : loop_samples_) {
            if (taken.thread != thread.get()) continue;
            record_sampled(*thread, taken.sampled, !taken.is_native && thread->holds_gil && is_collecting(*thread), when, weight);
            async_->note_paid(thread->state.address);
        }
    }
    loop_samples_.clear();
}

void Sampler::record_sampled(Thread& thread, const Sampled& sampled, bool collects, nanoseconds when, nanoseconds weight) {
    StackId stack = sampled.stack;
    PathId names = sampled.names;
    if (sampled.is_inferred) ++figures_.inferred;
    if (options_.gc_marker && collects) {
        stack = builder_.marker(stack, stacks_.node(stack).path, "[gc]");
    }
    const bool has_callers = !sampled.is_known && !sampled.is_inferred && sampled.sure_callers != kRootStack && !builder_.is_full();
    if (has_callers) {
        if (sampled.is_truncated || sampled.is_leaf_alone) names = builder_.extend(stacks_.node(sampled.sure_callers).path, names);
        stack = builder_.above_callers(sampled.sure_callers, stack, sampled.is_truncated);
    } else if (sampled.is_truncated) {
        ++figures_.truncated;
    }
    ++figures_.samples;
    ++thread.samples;
    thread.sampled_tick = figures_.ticks;
    thread.last_stack = stack;
    thread.last_names = names;
    thread.has_last = sampled.is_known && thread.seen == ThreadTriage::State::kBlocked;
    record(thread, stack, names, when, weight, sampled.has_sure_names && !has_callers, sampled.is_truncated && !has_callers);
}

void Sampler::record(Thread& thread, StackId stack, PathId names, nanoseconds when, nanoseconds weight, bool has_sure_names, bool is_truncated) {
    const SampleMarks marks{thread.seen == ThreadTriage::State::kRunning, thread.holds_gil};
    epoch_.add(index_of(thread), stack, names, weight, when - start_, marks, has_sure_names, is_truncated);
}

Sampler::Outcome Sampler::tick(nanoseconds when, nanoseconds weight) {
    if (!has_start_) {
        start_ = when;
        has_start_ = true;
    }
    if (stopper_ != nullptr && stopper_->has_late()) settle();
    if (copies_c_stacks() && !holds_.allows(when)) {
        ++figures_.held_back;
        if (epoch_.is_due(when)) end_epoch(when);
        return Outcome::kHeldBack;
    }
    ++figures_.ticks;
    if (has_chains_) notice_new_states();
    now_ = when;
    if (must_refresh_ || when - last_refresh_ >= kRefreshAtLeast) {
        if (target_.has_ended()) return Outcome::kTargetEnded;
        last_refresh_ = when;
        refresh_threads();
    }
    if (native_ != nullptr && when - last_native_refresh_ >= kNativeRefresh) {
        last_native_refresh_ = when;
        native_->refresh();
    }
    plan_read(when);
    note_copy(Epoch::CopyFor::kSamples);
    read_all(memory_, ranges_, filled_, ahead_.planned_levels);
    if (has_two_copies_) note_copied(ranges_);
    parse_interpreters();
    in_doubt_.clear();
    chains_.clear();
    is_gil_held_ = false;
    if (async_ != nullptr) async_->begin_tick(when, weight);
    note_turn();
    for (Thread* thread : planned_) take_thread(*thread, take_copies(*thread, filled_of(*thread)), when, weight);
    take_woken(when, weight);
    for (Thread* thread : native_planned_) take_native_thread(*thread, when, weight);
    if (native_ != nullptr) take_bare_threads(when, weight);
    if (has_chains_) take_chains(when, weight);
    if (async_ != nullptr) take_loops(when, weight);
    for (Thread* thread : in_doubt_) {
        if (prove_by_looks(*thread)) continue;
        if (stopper_ != nullptr && budget_.allows(when - start_)) prove_by_stop(*thread);
    }
    if (options_.which != WhichThreads::kRunning || async_ != nullptr) {
        for (const auto& thread : threads_) {
            if (thread->seen != ThreadTriage::State::kStillBlocked) continue;
            const bool is_wanted = options_.which != WhichThreads::kRunning || async_->wants_idle(thread->state.address);
            if (!is_wanted) continue;
            is_gil_held_ |= thread->holds_gil;  // it has not run since it was read
            if (!thread->has_last) continue;
            if (options_.which == WhichThreads::kGilHolder && !thread->holds_gil) continue;
            ++figures_.reused;
            record(*thread, thread->last_stack, thread->last_names, when, weight);
            epoch_.mark_used(thread->chain);
        }
    }
    if (must_refresh_ && when != last_refresh_) take_new(when, weight);
    if (is_gil_held_) ++figures_.gil_ticks;
    if (epoch_.tick(when) || epoch_.is_due(when)) end_epoch(when);
    return Outcome::kOk;
}

nanoseconds Sampler::settle() {
    if (stopper_ == nullptr || !stopper_->has_late()) return kLongestSettled;
    const nanoseconds held = stopper_->release_late();
    holds_.spend(held);
    budget_.lengthen(held);
    return stopper_->has_late() ? kSettleAgain : kLongestSettled;
}

void Sampler::end_epoch(nanoseconds now) {
    std::uint64_t generation = 0;
    const std::uint64_t* known = nullptr;
    if (has(layout_.interpreter.code_object_generation)) {
        known = &generation;
        for (const Interpreter& interpreter : interpreters_) {
            const auto value =
                read_value<std::uint64_t>(memory_, interpreter.state.address + at(layout_.interpreter.code_object_generation));
            if (!value) known = nullptr;
            // Of all interpreters together: one that ends must not hide what another has dropped.
            generation = (generation ^ raw(interpreter.state.address) ^ value.value_or(0)) * 0x9E3779B97F4A7C15ULL;
        }
    }
    const Epoch::Result& result = epoch_.end(now, known);
    figures_.truncated += result.demoted;
    if (result.has_stale) {
        for (const auto& thread : threads_) {
            thread->chain = {};
            thread->chain_other = {};
            thread->has_last = false;
        }
        other_chain_ = {};
        if (async_ != nullptr) async_->forget_codes();
        codes_.reuse_retired();
        call_sites_.forget();
    }
    for (const SampleRecord& record : result.records) sink_.add_sample(record);
    // A thread is seen before `threading` knows it; misses are remembered, so that asking costs little.
    for (const auto& thread : threads_) {
        if (thread->is_named || !thread->is_registered) continue;
        if (const std::string* name = program_name_of(*thread)) sink_.name_thread(thread->index, *name);
    }
    if (now - last_inferred_ >= kInferEvery) {
        last_inferred_ = now;
        infer_leaves();
    }
    if (target_.has_ended()) must_refresh_ = true;
}

void Sampler::finish(nanoseconds now) {
    for (const auto& thread : threads_) {
        if (async_ != nullptr && thread != nullptr && thread->is_registered) async_->flush(thread->state.address, thread->index);
    }
    end_epoch(now);
    infer_leaves();
}

RunFigures Sampler::figures() const {
    RunFigures figures = figures_;
    figures.looks = looks_.looks();
    figures.stops = budget_.stops();
    figures.stopped = budget_.spent();
    if (async_ != nullptr) async_->add_figures(figures);
    figures.longest_stop = budget_.longest();
    for (const auto& thread : threads_) {
        figures.busiest_thread_samples = std::max(figures.busiest_thread_samples, thread->samples);
    }
    return figures;
}

}  // namespace pyprof
