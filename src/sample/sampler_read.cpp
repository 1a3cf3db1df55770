// SPDX-License-Identifier: Apache-2.0
//
// What a tick reads: which threads are wanted, and the ranges of all of them for one vectored call. It must read
// nothing of a thread that sleeps on, since its stack is known.
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

// What moves slowly is looked at less often than at every sample where those come fast.
constexpr nanoseconds kFastReuse = std::chrono::microseconds(50);
constexpr nanoseconds kFastSlices = std::chrono::milliseconds(1);

}  // namespace

ThreadTriage::State Sampler::look_at(Thread& thread, nanoseconds when, nanoseconds reuse_within) {
    if (thread.runner == nullptr) return ThreadTriage::State::kUnknown;
    if (thread.runner != &thread) return thread.runner->seen;
    const ThreadTriage::State seen = thread.triage.look(target_, when, reuse_within);
    if (seen == ThreadTriage::State::kGone) must_refresh_ = true;
    ++figures_.thread_looks;
    if (seen == ThreadTriage::State::kRunning) ++figures_.running_looks;
    if (seen == ThreadTriage::State::kUnknown) ++figures_.unknown;
    return seen;
}

void Sampler::note_look(Thread& thread, nanoseconds when, nanoseconds reuse_within) {
    thread.turn = turn_;  // read before this look
    thread.looked_at = when;
    thread.seen = look_at(thread, when, reuse_within);
    thread.was_asked &= thread.seen == ThreadTriage::State::kStillBlocked;
}

// One that sleeps, and runs no loop, may wait for a task.
bool Sampler::wants_sleeper(const Thread& thread) const {
    const bool may_show = async_ != nullptr && native_ == nullptr && !has_chains_ && options_.which != WhichThreads::kGilHolder;
    return may_show && async_->wants_sleepers() && !async_->has_loop(thread.state.address);
}

bool Sampler::wants(const Thread& thread) const {
    using State = ThreadTriage::State;
    if (thread.runner == nullptr) return true;  // its stack tells whose it is
    if (thread.runner != &thread) return wants(*thread.runner);
    if (wants_sleeper(thread) && (thread.seen == State::kBlocked || (thread.seen == State::kStillBlocked && !thread.was_asked))) return true;
    const bool is_idle_loop = async_ != nullptr && (async_->wants_idle(thread.state.address) || async_->needs_stem(thread.state.address));
    switch (is_idle_loop ? WhichThreads::kAll : options_.which) {
        case WhichThreads::kRunning:
            return thread.seen == State::kRunning;
        case WhichThreads::kAll:
        case WhichThreads::kGilHolder:
            return thread.seen == State::kRunning || thread.seen == State::kBlocked ||
                   (thread.seen == State::kStillBlocked && !thread.has_last && !thread.has_nothing);
    }
    return false;
}

void Sampler::plan_read(nanoseconds when) {
    ranges_.clear();
    planned_.clear();
    native_planned_.clear();
    interpreter_ranges_ = 0;
    has_two_copies_ = false;
    ahead_.clear();
    const bool fast = is_fast();
    if (!fast || options_.which == WhichThreads::kGilHolder || when - last_slices_ >= kFastSlices) {
        last_slices_ = when;
        for (Interpreter& interpreter : interpreters_) {
            ranges_.push_back({interpreter.state.address + slice_begin_, interpreter.slice});
        }
        if (!runtime_slice_.empty()) ranges_.push_back({process_.runtime() + runtime_begin_, runtime_slice_});
        interpreter_ranges_ = ranges_.size();
    }
    turn_range_ = ranges_.size();
    if (turn_reader_.is_placed()) ranges_.push_back(turn_reader_.range());
    vouched_for_.clear();
    for (const auto& thread : threads_) {
        if (is_vouched_for(*thread, when)) {
            thread->seen = ThreadTriage::State::kStillBlocked;
            vouched_for_.push_back(thread.get());
            continue;
        }
        note_look(*thread, when, fast ? kFastReuse : nanoseconds{0});
        if (!wants(*thread)) continue;
        thread->planned_tick = figures_.ticks;
        const bool moves = thread->seen == ThreadTriage::State::kRunning;
        thread->may_prove = thread->doubt_samples > 0 || (!fast && shape_.on_data_stack());
        const bool twice = moves && (thread->may_prove || (!fast && options_.with_lines));
        if (takes_natively(*thread)) {
            if (thread->runner == thread.get()) native_planned_.push_back(thread.get());  // the others stand on its C stack
            continue;
        }
        has_two_copies_ |= twice && thread->may_prove;
        cover_version(*thread);
        thread->first_range = ranges_.size();
        thread->first_ahead = ahead_.ranges.size();
        thread->reader.plan(ranges_, twice ? ThreadReader::Copies::kTwo : ThreadReader::Copies::kOne, false, &ahead_);
        thread->range_count = ranges_.size() - thread->first_range;
        thread->ahead_count = ahead_.ranges.size() - thread->first_ahead;
        planned_.push_back(thread.get());
    }
    for (Thread* thread : planned_) thread->first_ahead += ranges_.size();
    append_ahead(ranges_, ahead_);
}

// At rates at which a look at every sleeper would cost more than the samples: one that slept a short while ago is taken to
// sleep on, as one that ran is taken to run. That its stack is what it was is no guess: see note_turn().
bool Sampler::is_vouched_for(const Thread& thread, nanoseconds when) const {
    using State = ThreadTriage::State;
    const bool slept = thread.seen == State::kBlocked || thread.seen == State::kStillBlocked;
    return turn_reader_.is_placed() && slept && (thread.has_last || thread.has_nothing) && when - thread.looked_at < kFastReuse &&
           thread.turn.vouches_for(thread.state.address, turn_);
}

// Where the GIL has been taken meanwhile, sleepers are looked at after all.
void Sampler::note_turn() {
    if (!turn_reader_.is_placed()) return;
    turn_ = filled_[turn_range_] != 0 ? turn_reader_.turn() : GilTurn();
    std::erase_if(vouched_for_, [&](const Thread* thread) { return thread->turn.vouches_for(thread->state.address, turn_); });
}

void Sampler::take_woken(nanoseconds when, nanoseconds weight) {
    for (Thread* thread : vouched_for_) {
        note_look(*thread, when, nanoseconds{0});
        if (wants(*thread)) take_alone(*thread, when, weight);
    }
}

// At the end of a tick that has met a changed list, or a thread that is gone: the threads that have begun since the last one.
// A thread that lives for a few periods would lack one of them otherwise. Nothing that the tick has read is looked at again.
void Sampler::take_new(nanoseconds when, nanoseconds weight) {
    if (target_.has_ended()) return;
    last_refresh_ = when;
    refresh_threads();
    if (has_chains_) return;  // whose stack is whose takes a whole tick
    for (Thread* thread : new_threads_) {
        note_look(*thread, when, nanoseconds{0});
        // Of a loop that sleeps its tasks alone are wanted, which this tick has recorded.
        const bool is_wanted = options_.which != WhichThreads::kRunning || thread->seen == ThreadTriage::State::kRunning;
        if (!is_wanted || !wants(*thread)) continue;
        if (!takes_natively(*thread)) {
            take_alone(*thread, when, weight);
        } else if (thread->runner == thread) {
            take_native_thread(*thread, when, weight);
        }
    }
    // Loops and workers of pools: without what waits for them.
    for (const LoopSample& taken : loop_samples_) {
        if (!taken.is_spliced) async_->note_unlinked();
        Thread& thread = *taken.thread;
        record_sampled(thread, taken.sampled, !taken.is_native && thread.holds_gil && is_collecting(thread), when, weight);
    }
    loop_samples_.clear();
}

void Sampler::take_alone(Thread& thread, nanoseconds when, nanoseconds weight) {
    thread.planned_tick = figures_.ticks;
    thread.may_prove = false;
    cover_version(thread);
    plan_look(thread, ThreadReader::Copies::kOne);
    note_copy(Epoch::CopyFor::kProof);  // of this thread alone
    read_all(memory_, look_ranges_, look_filled_, look_ahead_.planned_levels);
    const std::uint64_t misses = thread.reader.misses();
    const ThreadReader::Status status = thread.reader.take(memory_, look_filled_);
    thread.was_late = thread.reader.misses() != misses;
    take_thread(thread, status, when, weight);
}

bool Sampler::takes_natively(const Thread& thread) const {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    return native_ != nullptr && (stopper_ != nullptr || (!moves && thread.runner != nullptr));
}

// What is seldom there stands last: where the call ends at it, nothing else is missing.
void Sampler::append_ahead(std::vector<ReadRange>& ranges, ThreadReader::Ahead& ahead) {
    if (ahead.ranges.empty()) return;
    ahead.planned_levels.resize(ranges.size());
    ranges.insert(ranges.end(), ahead.ranges.begin(), ahead.ranges.end());
    ahead.planned_levels.insert(ahead.planned_levels.end(), ahead.levels.begin(), ahead.levels.end());
}

// The ranges of one thread alone.
void Sampler::plan_look(Thread& thread, ThreadReader::Copies copies) {
    look_ranges_.clear();
    look_ahead_.clear();
    thread.reader.plan(look_ranges_, copies, false, &look_ahead_);
    append_ahead(look_ranges_, look_ahead_);
}

std::span<const std::uint8_t> Sampler::filled_of(const Thread& thread) {
    const auto filled = std::span<const std::uint8_t>(filled_);
    const auto own = filled.subspan(thread.first_range, thread.range_count);
    if (thread.ahead_count == 0) return own;
    const auto ahead = filled.subspan(thread.first_ahead, thread.ahead_count);
    filled_of_thread_.assign(own.begin(), own.end());
    filled_of_thread_.insert(filled_of_thread_.end(), ahead.begin(), ahead.end());
    return filled_of_thread_;
}

// What a loop counts stands in the state of its thread.
void Sampler::cover_version(Thread& thread) const {
    if (async_ == nullptr || !async_->has_loop(thread.state.address) || !has(async_->context_version_offset())) return;
    thread.reader.cover_thread(at(async_->context_version_offset()) + 8);
}

// What a thread's loop had counted when the pointer to the leaf was read; 0: not known, or it has counted more before all
// frames were read.
std::uint64_t Sampler::version_of(const Thread& thread) const {
    if (!has(async_->context_version_offset())) return 0;
    const std::uint64_t offset = at(async_->context_version_offset());
    const std::uint64_t version = thread.reader.thread_word(offset).value_or(0);
    if (!thread.was_late || read_value<std::uint64_t>(memory_, thread.state.address + offset) == version) return version;
    return 0;
}

}  // namespace pyprof
