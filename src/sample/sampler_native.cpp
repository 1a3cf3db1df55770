// SPDX-License-Identifier: Apache-2.0
//
// The sampler's part in recordings with native frames. A thread that runs is stopped for one copy of its registers, its
// stack and what its Python frames need: both halves are of one moment, so that the Python stack needs no other
// proof. A thread that sleeps is copied without a stop, and counts only when it slept on.
#include "base/clock.h"
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

namespace {

// A plan that missed something reads it when the thread runs again: that copy is of two moments.
constexpr int kTries = 3;

}  // namespace

// True when registers, stack and Python frames were copied at one moment.
bool Sampler::copy_native(Thread& thread, ThreadReader::Status& status) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    const pid_t tid = thread.triage.tid();
    for (int i = 0; i < kTries; ++i) {
        ranges_.clear();
        thread.reader.plan(ranges_, false);
        const std::uint64_t misses = thread.reader.misses();
        StackCopier::Copied copied;
        if (moves) {
            copied = native_->copier().copy_running(tid, ranges_, native_->copy());
            if (copied.outcome != CopyOutcome::kNotStopped) budget_.spend(copied.stopped);
        } else {
            copied = native_->copier().copy_blocked(tid, thread.triage.activity(), ranges_, native_->copy());
        }
        const bool has_stack = copied.outcome == CopyOutcome::kCopied;
        if (!has_stack) {
            read_ranges();
        } else {
            filled_.assign(ranges_.size(), 0);
            std::fill_n(filled_.begin(), copied.also.complete, std::uint8_t{1});
        }
        status = thread.reader.take(memory_, filled_);
        const bool is_one_moment = thread.reader.misses() == misses || (!moves && thread.triage.stayed_blocked(target_));
        if (status != ThreadReader::Status::kOk || !has_stack) return false;
        if (is_one_moment && (moves || thread.triage.stayed_blocked(target_))) return true;
    }
    return false;
}

void Sampler::count_native(const NativeStacks::Joined& joined) {
    ++figures_.native;
    if (!joined.is_complete) ++figures_.native_cut;
    if (joined.unplaced > 0) ++figures_.native_unplaced;
}

void Sampler::take_native_thread(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight) {
    ThreadReader::Status status{};
    const bool is_one_moment = copy_native(thread, status);
    if (!has_stack_to_show(thread, status)) return;
    const bool collects = options_.gc_marker && thread.holds_gil && is_collecting(thread);
    const StackBuilder::Built built = builder_.build(thread.reader.walk(), thread.chain);
    const bool is_true = is_one_moment && !(thread.chain.read_code && !still_stands(thread.chain)) &&
                         is_complete(thread.reader.walk(), thread.chain, built);
    StackId stack = kRootStack;
    PathId names = kRootPath;
    bool is_known = true;
    if (is_true) {
        builder_.prove(builder_.path_of(thread.chain));
        epoch_.mark_used(thread.chain);
        const auto joined = native_->join(thread.triage.tid(), &thread.reader, &thread.chain, collects ? "[gc]" : "");
        count_native(joined);
        stack = joined.stack;
        names = builder_.path_of(thread.chain);
        if (thread.chain.unchanged < thread.chain.steps.size()) builder_.note_accepted(thread.chain);
    } else {
        ++figures_.native_none;
        const Sampled sampled = assess(thread);
        if (sampled.is_truncated) ++figures_.truncated;
        if (sampled.is_inferred) ++figures_.inferred;
        stack = collects ? builder_.marker(sampled.stack, sampled.path, "[gc]") : sampled.stack;
        names = sampled.names;
        is_known = sampled.is_known;
    }
    ++figures_.samples;
    ++thread.samples;
    thread.last_stack = stack;
    thread.last_names = names;
    thread.has_last = is_known && thread.seen == ThreadTriage::State::kBlocked;
    record(thread, stack, names, when, weight);
}

// Threads of libraries, which never ran Python: the kernel alone has a name for them.
void Sampler::refresh_bare_threads() {
    native_->refresh();
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
        const State seen = thread->triage.look(target_, when, std::chrono::nanoseconds{0});
        const bool moves = seen == State::kRunning;
        const bool sleeps = options_.which == WhichThreads::kAll && (seen == State::kBlocked || seen == State::kStillBlocked);
        if (!(moves && stopper_ != nullptr) && !sleeps) continue;
        if (seen == State::kStillBlocked && thread->has_last) {
            ++figures_.reused;
            epoch_.add(thread->index, thread->last_stack, kRootPath, weight, when - start_);
            continue;
        }
        const pid_t tid = thread->triage.tid();
        const auto copied = moves ? native_->copier().copy_running(tid, {}, native_->copy())
                                  : native_->copier().copy_blocked(tid, thread->triage.activity(), {}, native_->copy());
        if (moves && copied.outcome != CopyOutcome::kNotStopped) budget_.spend(copied.stopped);
        if (copied.outcome != CopyOutcome::kCopied || (sleeps && !thread->triage.stayed_blocked(target_))) {
            ++figures_.native_none;
            continue;
        }
        const auto joined = native_->join(tid, nullptr, nullptr, "");
        count_native(joined);
        ++figures_.samples;
        thread->last_stack = joined.stack;
        thread->has_last = sleeps;
        epoch_.add(thread->index, joined.stack, kRootPath, weight, when - start_, {moves, false});
    }
}

}  // namespace pyprof
