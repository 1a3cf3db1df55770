// SPDX-License-Identifier: Apache-2.0
//
// The sampler's part in processes of several interpreters. A thread that calls into another interpreter has a chain of
// frames in each; here they become one stack, and the thread is sampled once. Chains are put together that were proved
// to have stood there at one moment, and no others: an interpreter that waits below may call the next one already.
//
// Where nothing tells whose chains they are (3.8 and 3.9 without native frames), they stay apart. With native frames
// they are put together where the thread is stopped for its C stack (sampler_native.cpp).
#include "base/clock.h"
#include "sample/interpreter_entry.h"
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

using std::chrono::nanoseconds;

// Which part of memory is the stack of which thread. Both C libraries keep what pthread_self() points to at the top of
// the thread's stack; the main thread's has a name. Of several thread states that name a thread, that of the oldest
// interpreter is its own.
void Sampler::find_c_stacks() {
    c_stacks_.clear();
    // A thread that is stopped for its C stack shows what stands on it.
    has_chains_ = interpreters_.size() > 1 && (tells_entries(layout_) || copies_c_stacks());
    if (!has_chains_) {
        for (const auto& thread : threads_) {
            thread->is_inner = false;
            thread->runner = thread.get();
        }
        return;
    }
    const auto id_of = [&](const std::unique_ptr<Thread>& thread) {
        const Interpreter* interpreter = interpreter_of(*thread);
        return interpreter == nullptr ? 0 : interpreter->state.id;
    };
    // Callers first: what is read first and last of a look, and whose state the others have.
    std::stable_sort(threads_.begin(), threads_.end(),
                     [&](const auto& a, const auto& b) { return id_of(a) < id_of(b); });
    const auto mappings = target_.read_mappings();
    for (const auto& thread : threads_) {
        thread->is_inner = id_of(thread) != 0;
        thread->runner = !thread->is_inner ? thread.get() : copies_c_stacks() ? living_runner(*thread) : named_runner(*thread);
        if (!mappings) continue;
        const bool is_first = thread->triage.tid() == target_.pid();
        const auto stack = std::find_if(mappings->begin(), mappings->end(), [&](const Mapping& mapping) {
            return is_first ? mapping.path == "[stack]" : is_within(Address{thread->state.pthread}, mapping.start, mapping.end);
        });
        if (stack == mappings->end()) continue;
        const bool is_taken = std::any_of(c_stacks_.begin(), c_stacks_.end(),
                                          [&](const CStack& known) { return known.begin == stack->start; });
        if (!is_taken) c_stacks_.push_back({stack->start, stack->end, thread.get()});
    }
}

// A call into another interpreter may make a thread state for itself alone (3.13 on): who comes too late for it sees
// the caller without what it calls.
void Sampler::notice_new_states() {
    look_ranges_.clear();
    for (Interpreter& interpreter : interpreters_) {
        look_ranges_.push_back({interpreter.state.address + slice_begin_, interpreter.slice});
    }
    read_all(memory_, look_ranges_, look_filled_);
    for (std::size_t i = 0; i < interpreters_.size(); ++i) {
        if (look_filled_[i] == 0 || !is_as_listed(interpreters_[i])) must_refresh_ = true;
    }
}

// The first one of the kernel thread that made the state, which may be itself; null where that has ended.
Sampler::Thread* Sampler::living_runner(Thread& thread) {
    if (target_.read_activity(thread.triage.tid()).kind == Activity::Kind::kGone) return nullptr;
    return first_of_same_thread(thread);
}

// As the thread state itself tells it. From 3.13 on it is bound to the thread that runs it.
Sampler::Thread* Sampler::named_runner(const Thread& thread) const {
    return layout_.from_debug_offsets ? first_of_same_thread(thread) : nullptr;
}

Sampler::Thread* Sampler::first_of_same_thread(const Thread& thread) const {
    const pid_t tid = thread.triage.tid();
    const auto first = std::find_if(threads_.begin(), threads_.end(), [&](const auto& other) {
        return other.get() == &thread || (tid != 0 && other->triage.tid() == tid);
    });
    return first->get();
}

// After a chain was read: whose it is. False where that is not known; then it can't be said either whether it runs.
bool Sampler::find_runner(Thread& thread) {
    if (!thread.is_inner) return true;
    if (const Address entry = entry_on_c_stack(layout_, thread.reader); entry != kNullAddress) {
        const auto stack = std::find_if(c_stacks_.begin(), c_stacks_.end(),
                                        [&](const CStack& known) { return is_within(entry, known.begin, known.end); });
        thread.runner = stack == c_stacks_.end() ? named_runner(thread) : stack->thread;
    }
    if (thread.runner == nullptr) {
        ++figures_.unknown;
        return false;
    }
    thread.seen = thread.runner->seen;
    return true;
}

bool Sampler::stayed_blocked(const Thread& thread) const {
    return thread.runner != nullptr && thread.runner->triage.stayed_blocked(target_);
}

void Sampler::take_chains(nanoseconds when, nanoseconds weight) {
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        if (chains_[i].thread == nullptr) continue;
        Thread& runner = *chains_[i].thread->runner;
        chains_of_one_.clear();
        for (std::size_t k = i; k < chains_.size(); ++k) {
            if (chains_[k].thread == nullptr || chains_[k].thread->runner != &runner) continue;
            const Address entry = entry_on_c_stack(layout_, chains_[k].thread->reader);
            chains_of_one_.push_back({chains_[k].thread, chains_[k].sampled, entry});
            chains_[k].thread = nullptr;
        }
        std::sort(chains_of_one_.begin(), chains_of_one_.end(), [&](const Chain& a, const Chain& b) {
            if ((a.thread == &runner) != (b.thread == &runner)) return a.thread == &runner;
            return raw(a.entry) > raw(b.entry);
        });
        take_chains_of(runner, when, weight);
    }
    chains_.clear();
}

void Sampler::take_chains_of(Thread& runner, nanoseconds when, nanoseconds weight) {
    // Its chain was not wanted, or its last stack stands for all that it has; or it could not be read.
    if (runner.planned_tick != figures_.ticks || runner.status == ThreadReader::Status::kGone) return;
    bool holds = false;
    bool collects = false;
    for (const Chain& chain : chains_of_one_) {
        holds |= chain.thread->holds_gil;
        collects |= chain.thread->holds_gil && is_collecting(*chain.thread);
    }
    runner.holds_gil = holds;
    runner.has_nothing = false;
    if (options_.which == WhichThreads::kGilHolder && !holds) {
        runner.has_nothing = runner.seen == ThreadTriage::State::kBlocked;
        return;
    }
    Sampled whole = join_chains();
    if (chains_of_one_.size() > 1 && whole.is_known && !stacks_.is_proved(whole.path)) {
        if (runner.seen != ThreadTriage::State::kRunning) {
            if (stayed_blocked(runner)) builder_.prove_joined(whole.path);
            epoch_.note_proofs(false);
        } else if (!(looks_.allows() && prove_chains_by_copies()) && stopper_ != nullptr && budget_.allows(when - start_)) {
            prove_chains_by_stop(runner);
        }
    }
    whole.is_known = whole.is_known && stacks_.is_proved(whole.path);
    record_sampled(runner, whole, collects, when, weight);
}

Sampler::Sampled Sampler::join_chains() {
    // What follows for a leaf alone would lack the chains below it.
    for (Chain& chain : chains_of_one_) {
        if (!chain.sampled.is_leaf_alone || chains_of_one_.size() == 1) continue;
        const FrameId leaf = stacks_.node(chain.sampled.stack).frame;
        chain.sampled.stack = stacks_.intern_child(builder_.unproved(nullptr), leaf, kRootPath);
        chain.sampled.path = kRootPath;
        chain.sampled.is_leaf_alone = false;
        chain.sampled.is_truncated = true;
    }
    Sampled whole = chains_of_one_.front().sampled;
    for (std::size_t i = 1; i < chains_of_one_.size(); ++i) {
        const Sampled& inner = chains_of_one_[i].sampled;
        if (inner.is_truncated) {  // what it stands on is not known either
            whole = inner;
            continue;
        }
        const StackId below = whole.is_truncated ? builder_.unproved(nullptr) : whole.stack;
        const StackBuilder::Place place = builder_.join(below, inner.stack);
        whole.stack = place.stack;
        whole.path = whole.names = place.path;
        whole.is_known = whole.is_known && inner.is_known;
        whole.is_inferred = whole.is_inferred || inner.is_inferred;
    }
    return whole;
}

// All chains once more in one call, each one's copies around those of what it calls. What is proved is the stack of that
// moment, which need not be the sample's.
bool Sampler::prove_chains_by_copies() {
    looks_.spend();
    std::vector<std::vector<ReadRange>> planned(chains_of_one_.size());
    std::vector<std::size_t> fronts(planned.size());  // the two copies lie around the pointer in the middle
    look_ranges_.clear();
    for (std::size_t i = 0; i < planned.size(); ++i) {
        const bool is_outer = i + 1 < planned.size();
        chains_of_one_[i].thread->reader.plan(planned[i], is_outer ? ThreadReader::Copies::kAround : ThreadReader::Copies::kOne);
        fronts[i] = is_outer ? planned[i].size() / 2 : planned[i].size();
        look_ranges_.insert(look_ranges_.end(), planned[i].begin(), planned[i].begin() + static_cast<std::ptrdiff_t>(fronts[i]));
    }
    for (std::size_t i = planned.size(); i-- > 0;) {
        look_ranges_.insert(look_ranges_.end(), planned[i].begin() + static_cast<std::ptrdiff_t>(fronts[i]), planned[i].end());
    }
    note_copy(Epoch::CopyFor::kProof);
    read_all(memory_, look_ranges_, look_filled_);
    if (monotonic_now() - copied_at_ > options_.one_moment) return false;

    const std::vector<std::uint8_t> all = look_filled_;
    std::size_t front = 0;
    std::size_t back = all.size();
    bool are_sure = true;
    StackBuilder::Place place;
    for (std::size_t i = 0; i < planned.size(); ++i) {
        const std::size_t rest = planned[i].size() - fronts[i];
        std::vector<std::uint8_t> filled(all.begin() + static_cast<std::ptrdiff_t>(front), all.begin() + static_cast<std::ptrdiff_t>(front + fronts[i]));
        filled.insert(filled.end(), all.begin() + static_cast<std::ptrdiff_t>(back - rest), all.begin() + static_cast<std::ptrdiff_t>(back));
        front += fronts[i];
        back -= rest;
        Thread& thread = *chains_of_one_[i].thread;
        const std::uint64_t misses = thread.reader.misses();
        if (thread.reader.take(memory_, filled) != ThreadReader::Status::kOk) return false;
        if (thread.reader.misses() != misses) return false;  // what the plan missed was read later
        const Walk& walk = thread.reader.walk();
        const bool is_outer = i + 1 < planned.size();
        if (is_outer && (thread.reader.walk_other().end != WalkEnd::kRoot || thread.reader.walk_other().frames != walk.frames)) return false;
        if (!build_whole(thread, walk, other_chain_) || !stacks_.is_proved(builder_.path_of(other_chain_))) return false;
        epoch_.mark_used(other_chain_);
        are_sure = are_sure && epoch_.is_sure(other_chain_);
        place = builder_.join(place.stack, builder_.stack_of(other_chain_));
    }
    looks_.note_proof();
    builder_.prove_joined(place.path);
    epoch_.note_proofs(are_sure);
    return true;
}

// All chains once more, while the thread that runs them is stopped: what they hold then did stand there at one moment.
// That need not be the sample's.
void Sampler::prove_chains_by_stop(Thread& runner) {
    std::vector<std::vector<ReadRange>> planned(chains_of_one_.size());
    look_ranges_.clear();
    for (std::size_t i = 0; i < planned.size(); ++i) {
        chains_of_one_[i].thread->reader.plan(planned[i], ThreadReader::Copies::kOne);
        look_ranges_.insert(look_ranges_.end(), planned[i].begin(), planned[i].end());
    }
    StackBuilder::Place place;
    bool is_good = true;
    bool are_sure = true;
    const bool is_stopped = while_stopped(runner, [&] {
        note_copy(Epoch::CopyFor::kProof);
        read_all(memory_, look_ranges_, look_filled_);
        auto filled = std::span<const std::uint8_t>(look_filled_);
        for (std::size_t i = 0; is_good && i < planned.size(); ++i) {
            Thread& thread = *chains_of_one_[i].thread;
            is_good = thread.reader.take(memory_, filled.first(planned[i].size()), {}, ThreadReader::Motion::kStands) == ThreadReader::Status::kOk &&
                      build_whole(thread, thread.reader.walk(), other_chain_, Held::kStopped);
            filled = filled.subspan(planned[i].size());
            if (!is_good) break;
            builder_.prove(builder_.path_of(other_chain_));
            epoch_.mark_used(other_chain_);
            are_sure = are_sure && epoch_.is_sure(other_chain_);
            place = builder_.join(place.stack, builder_.stack_of(other_chain_));
        }
    });
    if (!is_stopped) return;
    if (is_good) builder_.prove_joined(place.path);
    epoch_.note_proofs(are_sure);
}

}  // namespace pyprof
