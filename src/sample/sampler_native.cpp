// SPDX-License-Identifier: Apache-2.0
//
// The sampler's part in recordings with native frames. A thread that runs is stopped for one copy of its registers, its
// stack and what its Python frames need: both halves are of one moment, so that the Python stack needs no other
// proof. A thread that sleeps is copied without a stop, and counts only when it slept on.
#include "sample/sampler.h"
#include "sample/wait_marker.h"

#include <algorithm>

namespace pyprof {

namespace {

// With so few threads what was seen of one at the beginning of the tick is still new.
constexpr std::size_t kFewThreads = 4;
constexpr int kTries = 3;  // at a sleeping thread
constexpr std::chrono::milliseconds kStopPatience{20};

}  // namespace

// Many looks lie between the one at this thread and its stop. One that has fallen asleep meanwhile is not to be
// interrupted: it is copied as it sleeps.
void Sampler::look_again(ThreadTriage& triage, ThreadTriage::State& seen, std::chrono::nanoseconds when) {
    if (threads_.size() + bare_threads_.size() > kFewThreads && seen == ThreadTriage::State::kRunning) {
        seen = triage.look(target_, when, std::chrono::nanoseconds{0});
    }
}

void Sampler::note_stop(const StackCopier::Copied& copied) {
    if (copied.outcome == CopyOutcome::kNotStopped) return;
    budget_.spend(copied.held);
    holds_.spend(copied.held);
}

// True when registers, stack and Python frames were copied at one moment. `finish_in_stop`: what the plan missed is
// read while the thread is still stopped, which takes longer; else it is read when the thread runs again.
bool Sampler::copy_native_once(Thread& thread, bool finish_in_stop, ThreadReader::Status& status, bool& has_stack) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    const pid_t tid = thread.triage.tid();
    ranges_.clear();
    thread.reader.plan(ranges_, false, true);
    plan_version(thread);
    const std::uint64_t misses = thread.reader.misses();
    bool is_taken = false;
    const auto take = [&](const ReadOutcome& outcome) {
        filled_.assign(ranges_.size(), 0);
        std::fill_n(filled_.begin(), outcome.complete, std::uint8_t{1});
        const StackCopy& copy = native_->copy();
        status = thread.reader.take(memory_, filled_, {copy.begin, copy.bytes});
        is_taken = true;
    };
    StackCopier::Copied copied;
    note_copy(Epoch::CopyFor::kProof);  // a copy of this thread alone: it says nothing of the samples of others
    if (moves) {
        copied = native_->copier().copy_running(tid, ranges_, native_->copy(), kStopPatience,
                                                finish_in_stop ? StackCopier::WhileStopped(take) : StackCopier::WhileStopped());
        note_stop(copied);
    } else {
        copied = native_->copier().copy_blocked(tid, thread.triage.activity(), ranges_, native_->copy());
    }
    has_stack = copied.outcome == CopyOutcome::kCopied;
    if (!has_stack && !is_taken) {
        read_ranges();
        status = thread.reader.take(memory_, filled_);
    } else if (!is_taken) {
        take(copied.also);
    }
    if (thread.version_range >= filled_.size() || filled_[thread.version_range] == 0) thread.context_version = 0;
    if (!moves) return thread.triage.stayed_blocked(target_);
    return finish_in_stop || thread.reader.misses() == misses;
}

bool Sampler::copy_native(Thread& thread, ThreadReader::Status& status) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    bool has_stack = false;
    for (int i = 0; i < (moves ? 2 : kTries); ++i) {
        const bool is_one_moment = copy_native_once(thread, i > 0, status, has_stack);
        if (status != ThreadReader::Status::kOk || !has_stack) return false;
        if (is_one_moment) return true;
    }
    return false;
}

// Of a thread that sleeps: what in.
std::string Sampler::marker_of(const Thread& thread) const {
    if (thread.seen == ThreadTriage::State::kRunning) return {};
    const Interpreter* interpreter = interpreter_of(thread);
    const GilFacts facts = interpreter == nullptr ? GilFacts{} : interpreter->gil_facts;
    return wait_marker(thread.triage.activity(), facts.gil_begin, facts.gil_end);
}

void Sampler::count_native(const NativeStacks::Joined& joined) {
    ++figures_.native;
    if (!joined.is_complete) ++figures_.native_cut;
    if (joined.unplaced > 0) ++figures_.native_unplaced;
}

void Sampler::take_native_thread(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight) {
    ThreadReader::Status status{};
    look_again(thread.triage, thread.seen, when);
    if (thread.seen == ThreadTriage::State::kGone) must_refresh_ = true;
    const bool is_one_moment = copy_native(thread, status);
    if (!has_stack_to_show(thread, status)) return;
    const bool collects = options_.gc_marker && thread.holds_gil && is_collecting(thread);
    const bool has_loop = async_ != nullptr && async_->has_loop(thread.state.address);
    if (is_one_moment && build_whole(thread, thread.reader.walk(), thread.chain)) {
        builder_.prove(builder_.path_of(thread.chain));
        epoch_.mark_used(thread.chain);
        epoch_.note_proofs(epoch_.is_sure(thread.chain));
        const NativeStacks::Part part{&thread.reader, &thread.chain};
        const std::string waits = marker_of(thread);
        const NativeStacks::Markers markers{collects ? "[gc]" : "", waits};
        const auto joined = native_->merge(thread.triage.tid(), {&part, 1});
        count_native(joined);
        if (thread.chain.unchanged < thread.chain.steps.size()) builder_.note_accepted(thread.chain);
        Sampled sampled;
        sampled.stack = joined.stack;
        sampled.path = sampled.names = builder_.path_of(thread.chain);
        sampled.is_known = true;
        sampled.chain = &thread.chain;
        const auto place = [&](StackId below, std::size_t begin, std::size_t end) {
            return native_->place(below, {&part, 1}, begin, end, markers);
        };
        const std::size_t steps = thread.chain.steps.size();
        if (has_loop) {
            take_native_loop(thread, sampled, joined.has_native ? AsyncSampler::PlaceSteps(place) : nullptr, steps);
        } else {
            if (joined.has_native) sampled.stack = place(kRootStack, 0, steps);
            record_sampled(thread, sampled, false, when, weight);  // a collection is marked already
        }
    } else {
        ++figures_.native_none;
        Sampled sampled = assess(thread);
        if (has_loop) {
            if (collects) sampled.stack = builder_.marker(sampled.stack, stacks_.node(sampled.stack).path, "[gc]");
            take_native_loop(thread, sampled, {}, 0);
        } else {
            record_sampled(thread, sampled, collects, when, weight);
        }
    }
}

// At once, since what was merged last is this thread's. Its sample counts with those of other loops.
void Sampler::take_native_loop(Thread& thread, Sampled sampled, const AsyncSampler::PlaceSteps& place, std::size_t steps) {
    LoopSample taken{&thread, sampled, true, false};
    if (sampled.chain == nullptr) {
        async_->note_unlinked();
    } else if (const auto spliced = async_->splice(thread.state.address, *sampled.chain, thread.context_version, place)) {
        taken.sampled.stack = spliced->place.stack;
        taken.sampled.names = spliced->place.names;
        taken.is_spliced = true;
    } else if (place) {
        taken.sampled.stack = place(kRootStack, 0, steps);
    }
    loop_samples_.push_back(taken);
}

// Threads of libraries, which never ran Python: the kernel alone has a name for them.
void Sampler::refresh_bare_threads() {
    const auto all = target_.read_threads();
    if (!all || options_.which == WhichThreads::kGilHolder) return;
    const auto is_python = [&](pid_t tid) {
        return std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) { return thread->triage.tid() == tid; });
    };
    std::vector<std::unique_ptr<BareThread>> bare;
    for (const ThreadId& id : *all) {
        if (is_python(id.tid)) continue;
        const auto known = std::find_if(bare_threads_.begin(), bare_threads_.end(),
                                        [&](const auto& thread) { return thread && thread->triage.tid() == id.tid; });
        if (known != bare_threads_.end()) {
            bare.push_back(std::move(*known));
            continue;
        }
        auto fresh = std::make_unique<BareThread>(id.tid);
        fresh->index = next_index_++;
        sink_.add_thread({static_cast<std::uint64_t>(id.tid), target_.read_thread_name(id.tid), false});
        bare.push_back(std::move(fresh));
    }
    for (const auto& old : bare_threads_) {
        if (!old) continue;
        native_->forget_thread(old->triage.tid());
        if (!is_python(old->triage.tid())) target_.forget_thread(old->triage.tid());
    }
    bare_threads_ = std::move(bare);
}

void Sampler::take_bare_threads(std::chrono::nanoseconds when, std::chrono::nanoseconds weight) {
    using State = ThreadTriage::State;
    for (const auto& thread : bare_threads_) {
        State seen = thread->triage.look(target_, when, std::chrono::nanoseconds{0});
        if (seen == State::kStillBlocked && thread->has_last && options_.which == WhichThreads::kAll) {
            ++figures_.reused;
            epoch_.add(thread->index, thread->last_stack, kRootPath, weight, when - start_);
            continue;
        }
        if (seen != State::kStillBlocked) thread->has_last = false;
        const bool is_wanted = seen == State::kRunning || options_.which == WhichThreads::kAll;
        const bool moves = seen == State::kRunning;
        if (!is_wanted || (moves && stopper_ == nullptr) || seen == State::kGone || seen == State::kUnknown) continue;
        const pid_t tid = thread->triage.tid();
        const auto copied = moves ? native_->copier().copy_running(tid, {}, native_->copy(), kStopPatience)
                                  : native_->copier().copy_blocked(tid, thread->triage.activity(), {}, native_->copy());
        if (moves) note_stop(copied);
        if (copied.outcome != CopyOutcome::kCopied || (!moves && !thread->triage.stayed_blocked(target_))) {
            ++figures_.native_none;
            continue;
        }
        const std::string waits = moves ? std::string() : wait_marker(thread->triage.activity(), kNullAddress, kNullAddress);
        const auto joined = native_->join(tid, {}, {{}, waits});
        count_native(joined);
        ++figures_.samples;
        thread->last_stack = joined.stack;
        thread->has_last = !moves;
        epoch_.add(thread->index, joined.stack, kRootPath, weight, when - start_, {moves, false});
    }
}

}  // namespace pyprof
