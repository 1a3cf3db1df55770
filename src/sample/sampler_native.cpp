// SPDX-License-Identifier: Apache-2.0
//
// The sampler's part in recordings with native frames. A thread that runs is stopped for one copy of its registers, its
// stack and what its Python frames need: both halves are of one moment, so that the Python stack needs no other
// proof. A thread that sleeps is copied without a stop, and counts only when it slept on.
#include "sample/interpreter_entry.h"
#include "sample/loops_on_c_stacks.h"
#include "sample/sampler.h"
#include "sample/wait_marker.h"

#include <algorithm>

namespace pyprof {

namespace {

// With so few threads what was seen of one at the beginning of the tick is still new.
constexpr std::size_t kFewThreads = 4;
constexpr int kTries = 3;  // at a sleeping thread
constexpr std::size_t kMostChains = 64;  // of other interpreters, that a stop looks at
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

// What may stand on this thread's C stack: its own chain, and those of other interpreters that are no other thread's.
void Sampler::list_native_chains(Thread& thread) {
    native_chains_.assign(1, &thread);
    if (!has_chains_ || (async_ != nullptr && async_->has_loop(thread.state.address))) return;
    for (const auto& other : threads_) {
        if (other.get() == &thread || !other->is_inner || other->runner == other.get()) continue;
        if (layout_.from_debug_offsets && other->runner != &thread) continue;
        if (native_chains_.size() <= kMostChains) native_chains_.push_back(other.get());
    }
}

// After the copy: which of them do.
void Sampler::find_native_parts(Thread& thread) {
    native_parts_.clear();
    const bool has_several = interpreters_.size() > 1;
    const StackCopy& copy = native_->copy();
    for (Thread* chain : native_chains_) {
        if (chain->status == ThreadReader::Status::kGone) must_refresh_ = true;
        if (chain->status != ThreadReader::Status::kOk) continue;
        Address entry{};
        if (has_several) entry = tells_entries(layout_) ? entry_on_c_stack(layout_, chain->reader) : find_loop(copy, chain->reader.walk().frames);
        if (!copy.holds(entry, sizeof(std::uint64_t))) entry = kNullAddress;
        if (chain == &thread || entry != kNullAddress) native_parts_.push_back({chain, {}, entry});
    }
    std::sort(native_parts_.begin(), native_parts_.end(), [](const Chain& a, const Chain& b) { return raw(a.entry) < raw(b.entry); });
}

// True when registers, stack and Python frames were copied at one moment, and `python` is what they came to.
// `finish_in_stop`: what the plan missed, and names of new code, are read while the thread is still stopped, which takes
// longer; else they are read when the thread runs again.
bool Sampler::copy_native_once(Thread& thread, bool finish_in_stop, std::optional<StackBuilder::Place>& python) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    const pid_t tid = thread.triage.tid();
    ranges_.clear();
    list_native_chains(thread);
    for (Thread* chain : native_chains_) {
        chain->first_range = ranges_.size();
        cover_version(*chain);
        chain->reader.plan(ranges_, ThreadReader::Copies::kOne, true);
        chain->range_count = ranges_.size() - chain->first_range;
        chain->misses = chain->reader.misses();
    }
    bool is_taken = false;
    const auto take_all = [&](const CStackBytes& c_stack) {
        for (Thread* chain : native_chains_) {
            const auto filled = std::span<const std::uint8_t>(filled_).subspan(chain->first_range, chain->range_count);
            chain->status = chain->reader.take(memory_, filled, c_stack);
        }
        find_native_parts(thread);
        is_taken = true;
    };
    const auto take = [&](const ReadOutcome& outcome) {
        filled_.assign(ranges_.size(), 0);
        std::fill_n(filled_.begin(), outcome.complete, std::uint8_t{1});
        const StackCopy& copy = native_->copy();
        take_all({copy.begin, copy.bytes});
    };
    const auto finish = [&](const ReadOutcome& outcome) {
        take(outcome);
        python = build_native_parts(Held::kStopped);
    };
    StackCopier::Copied copied;
    note_copy(Epoch::CopyFor::kProof);  // a copy of this thread alone: it says nothing of the samples of others
    if (moves) {
        copied = native_->copier().copy_running(tid, ranges_, native_->copy(), kStopPatience,
                                                finish_in_stop ? StackCopier::WhileStopped(finish) : StackCopier::WhileStopped());
        note_stop(copied);
    } else {
        copied = native_->copier().copy_blocked(tid, thread.triage.activity(), ranges_, native_->copy());
    }
    const bool has_stack = copied.outcome == CopyOutcome::kCopied;
    if (!has_stack && !is_taken) {
        native_->copy().bytes.clear();
        read_ranges();
        take_all({});
    } else if (!is_taken) {
        take(copied.also);
    }
    thread.was_late = thread.reader.misses() != thread.misses;
    if (native_parts_.empty() || !has_stack) return false;
    const auto was_planned = [](const Chain& part) { return part.thread->reader.misses() == part.thread->misses; };
    const bool is_one_moment = !moves ? thread.triage.stayed_blocked(target_)
                                      : finish_in_stop || std::all_of(native_parts_.begin(), native_parts_.end(), was_planned);
    if (is_one_moment) thread.was_late = false;
    if (is_one_moment && !python) python = build_native_parts(Held::kNo);
    return is_one_moment && python;
}

std::optional<StackBuilder::Place> Sampler::copy_native(Thread& thread) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    // Where code is being replaced, names are told while the thread stands: then they are sure.
    const int first = moves && epoch_.is_wary() ? 1 : 0;
    std::optional<StackBuilder::Place> python;
    for (int i = first; i < (moves ? 2 : kTries); ++i) {
        if (copy_native_once(thread, i > 0, python)) return python;
        python.reset();
        if (native_parts_.empty() || native_->copy().bytes.empty()) break;
    }
    return std::nullopt;
}

// Of a thread that sleeps: what in.
std::string Sampler::marker_of(const Thread& thread) const {
    if (thread.seen == ThreadTriage::State::kRunning) return {};
    const Interpreter* interpreter = interpreter_of(thread);
    const GilFacts facts = interpreter == nullptr ? GilFacts{} : interpreter->gil_facts;
    return wait_marker(thread.triage.activity(), facts.gil_begin, facts.gil_end);
}

void Sampler::count_native(const NativeStacks::Joined& joined) {
    if (joined.unplaced > 0) ++figures_.native_unplaced;
    if (!joined.has_native) {
        ++figures_.native_none;
        return;
    }
    ++figures_.native;
    switch (joined.end) {
        case UnwindEnd::kRoot:
            return;
        case UnwindEnd::kNotCode:
        case UnwindEnd::kNoRule:
            ++figures_.native_cut_code;
            break;
        case UnwindEnd::kUnknownRegister:
            ++figures_.native_cut_register;
            break;
        case UnwindEnd::kOutsideCopy:
            ++figures_.native_cut_copy;
            break;
        case UnwindEnd::kBadRule:
            ++figures_.native_cut_rule;
            break;
        case UnwindEnd::kTooDeep:
            ++figures_.native_cut_depth;
            break;
    }
    ++figures_.native_cut;
}

// The Python frames of all parts as one stack. They are of one moment, which proves them.
std::optional<StackBuilder::Place> Sampler::build_native_parts(Held held) {
    if (native_parts_.empty()) return std::nullopt;
    StackBuilder::Place place;
    for (auto part = native_parts_.rbegin(); part != native_parts_.rend(); ++part) {
        Thread& thread = *part->thread;
        if (!build_whole(thread, thread.reader.walk(), thread.chain, held)) return std::nullopt;
        builder_.prove(builder_.path_of(thread.chain));
        epoch_.mark_used(thread.chain);
        epoch_.note_proofs(epoch_.is_sure(thread.chain));
        const bool is_first = part == native_parts_.rbegin();
        place = is_first ? StackBuilder::Place{builder_.stack_of(thread.chain), builder_.path_of(thread.chain)}
                         : builder_.join(place.stack, builder_.stack_of(thread.chain));
        if (!is_first) builder_.prove_joined(place.path);
    }
    return place;
}

// Where Python frames are placed by their number, loops of an interpreter whose frames are not known would shift them.
bool Sampler::has_other_loops(const NativeStacks::Joined& joined) const {
    if (interpreters_.size() <= 1 || layout_.frame_root != FrameRoot::kThreadFrame) return false;
    const bool are_placed = std::all_of(native_parts_.begin(), native_parts_.end(), [](const Chain& part) { return part.entry != kNullAddress; });
    return !are_placed || joined.extra_loops < 0 || joined.extra_loops > 1;  // one may be entering or leaving
}

void Sampler::take_native_thread(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight) {
    look_again(thread.triage, thread.seen, when);
    if (thread.seen == ThreadTriage::State::kGone) must_refresh_ = true;
    auto python = copy_native(thread);
    const bool has_own = thread.status == ThreadReader::Status::kOk;
    const bool is_frameless = native_parts_.empty() && thread.status == ThreadReader::Status::kNoFrame;
    if (!has_stack_to_show(thread, native_parts_.empty() ? thread.status : ThreadReader::Status::kOk)) {
        if (is_frameless) take_frameless(thread, when, weight);
        return;
    }
    bool collects = false;
    for (const Chain& part : native_parts_) {
        const bool holds = holds_gil(*part.thread);
        collects |= options_.gc_marker && holds && is_collecting(*part.thread);
        thread.holds_gil |= holds;
    }
    if (options_.which == WhichThreads::kGilHolder && !thread.holds_gil) {
        thread.has_nothing = thread.seen == ThreadTriage::State::kBlocked;
        return;
    }
    const bool has_loop = async_ != nullptr && async_->has_loop(thread.state.address);
    if (python) {
        parts_.clear();
        for (const Chain& part : native_parts_) parts_.push_back({&part.thread->reader, &part.thread->chain});
        const std::string waits = marker_of(thread);
        const NativeStacks::Markers markers{collects ? "[gc]" : "", waits};
        auto joined = native_->merge(thread.triage.tid(), parts_);
        if (has_other_loops(joined)) {
            joined.has_native = false;
            native_parts_.erase(std::remove_if(native_parts_.begin(), native_parts_.end(), [&](const Chain& part) { return part.thread != &thread; }),
                                native_parts_.end());
            python = build_native_parts(Held::kNo);
            if (!python) return;
        }
        count_native(joined);
        for (const Chain& part : native_parts_) {
            if (part.thread->chain.unchanged < part.thread->chain.steps.size()) builder_.note_accepted(part.thread->chain, part.thread->state.address);
        }
        Sampled sampled;
        sampled.stack = python->stack;
        sampled.path = sampled.names = python->path;
        sampled.is_known = true;
        sampled.has_sure_names = !has_loop && std::all_of(native_parts_.begin(), native_parts_.end(),
                                                          [&](const Chain& part) { return epoch_.is_sure(part.thread->chain); });
        sampled.chain = &thread.chain;
        const auto place = [&](StackId below, std::size_t begin, std::size_t end) {
            return native_->place(below, parts_, begin, end, markers);
        };
        std::size_t steps = 0;
        for (const Chain& part : native_parts_) steps += part.thread->chain.steps.size();
        if (has_loop) {
            take_native_loop(thread, sampled, joined.has_native ? AsyncSampler::PlaceSteps(place) : nullptr, steps);
        } else {
            if (joined.has_native) sampled.stack = place(kRootStack, 0, steps);
            record_sampled(thread, sampled, collects && !joined.has_native, when, weight);  // else it is marked already
        }
    } else {
        ++figures_.native_none;
        if (!has_own) return;
        Sampled sampled = assess(thread);
        if (has_loop) {
            if (collects) sampled.stack = builder_.marker(sampled.stack, stacks_.node(sampled.stack).path, "[gc]");
            take_native_loop(thread, sampled, {}, 0);
        } else {
            record_sampled(thread, sampled, collects, when, weight);
        }
    }
}

// C code that attached to Python, as that of a program which embeds it, and calls none now: its native frames alone. The copy has
// just been made.
void Sampler::take_frameless(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight) {
    const bool moves = thread.seen == ThreadTriage::State::kRunning;
    if (!moves && options_.which == WhichThreads::kRunning) return;
    if (options_.which == WhichThreads::kGilHolder && !thread.holds_gil) return;
    if (native_->copy().bytes.empty() || (!moves && !thread.triage.stayed_blocked(target_))) {
        ++figures_.native_none;
        if (moves) ++figures_.frameless;
        return;
    }
    const std::string waits = marker_of(thread);
    const auto joined = native_->join(thread.triage.tid(), {}, {{}, waits});
    count_native(joined);
    thread.has_nothing = false;
    thread.chain = {};
    Sampled sampled;
    sampled.stack = joined.stack;
    sampled.is_known = true;
    sampled.has_sure_names = true;  // there is none of a code object
    record_sampled(thread, sampled, false, when, weight);
}

// At once, since what was merged last is this thread's. Its sample counts with those of other loops.
void Sampler::take_native_loop(Thread& thread, Sampled sampled, const AsyncSampler::PlaceSteps& place, std::size_t steps) {
    LoopSample taken{&thread, sampled, true, false};
    if (sampled.chain == nullptr) {
        async_->note_unlinked();
    } else if (const auto spliced = async_->splice(thread.state.address, *sampled.chain, version_of(thread), place)) {
        taken.sampled.stack = spliced->place.stack;
        taken.sampled.names = spliced->place.names;
        taken.is_spliced = true;
    } else {
        if (thread.seen != ThreadTriage::State::kRunning) learn_idle_stem(thread, *sampled.chain, place);
        if (place) taken.sampled.stack = place(kRootStack, 0, steps);
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
