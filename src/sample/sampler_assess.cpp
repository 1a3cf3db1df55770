// SPDX-License-Identifier: Apache-2.0
//
// What one copy of a thread comes to: a known path, one that can be proved now, one that follows, or a leaf alone;
// and what is done for the next samples where this one proved nothing. The rules, their reasons and their limits are
// in docs/how-it-works.md. No rule may favour a stack that holds still: the pointer to the leaf dates the sample. The second
// reading takes its place where the first one tells nothing of it; a later look at the thread proves paths but replaces none.
#include "base/clock.h"
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t kTwiceAfterDoubt = 64;
constexpr int kMostLooks = 4;  // at one thread after one sample
// Accepted samples of a leaf after which the one path to it is taken for the only one.
constexpr std::uint32_t kInferSightings = 4;

}  // namespace

// Whether the chain begins at the thread's root.
bool Sampler::is_anchored(const Walk& walk, const StackBuilder::Chain& chain) const {
    if (walk.end != WalkEnd::kRoot || chain.steps.empty()) return false;
    // Up to 3.10 a generator's frame loses its caller when it yields, and only its code tells what it is.
    return layout_.frame_root != FrameRoot::kThreadFrame || !codes_.entry(chain.steps.front().code).is_generator;
}

bool Sampler::is_complete(const Walk& walk, const StackBuilder::Chain& chain, StackBuilder::Built built) const {
    return built != StackBuilder::Built::kTorn && is_anchored(walk, chain);
}

// Whether a code bears the name that it had at the copy, unless the epoch says otherwise. That alone makes names of two
// chains, or of a chain and a leaf, fit together: what was read later may be another call's.
bool Sampler::has_sure_name(CodeIndex code) {
    if (code == kNoCode || !codes_.entry(code).is_alive) return false;
    if (builder_.is_newer_than_copy(code)) return epoch_.is_sure(code);
    epoch_.mark_used(code);
    return true;
}

// Whether a frame that was found where the leaf is to be has not been left since: it executes, or has not been cleared.
bool Sampler::is_intact_leaf(const RawFrame& frame) const {
    const bool executes = shape_.on_data_stack() != shape_.is_suspended(frame);
    return executes || (shape_.clears_popped_frames() && !frame.of_generator);
}

// What stood at the pointer to the leaf when that was read, though its callers are lost.
std::optional<RawFrame> Sampler::sure_leaf(Thread& thread) {
    const Walk& walk = thread.reader.walk();
    if (walk.frames.empty() || walk.frames.front().address != thread.reader.leaf()) return std::nullopt;
    const RawFrame& leaf = walk.frames.front();
    const std::byte* copy = thread.reader.copy_of(leaf.address, true);
    if (copy == nullptr || !thread.reader.is_other_earlier()) return leaf;
    const FrameShape::Parsed before = shape_.parse(copy, leaf.address);
    if (!before.is_valid || before.frame.code == leaf.code) return leaf;
    // Another frame stood there earlier. One of the two will do that lives: it was the leaf itself, at most some
    // microseconds from the moment at which the pointer was read.
    if (is_intact_leaf(leaf)) return leaf;
    const bool has_code = codes_.find(before.frame.code) != kNoCode;
    if (!before.is_shim && has_code && before.frame.of_generator == leaf.of_generator && is_intact_leaf(before.frame)) return before.frame;
    // What an ended generator left behind can't have been resumed since.
    if (leaf.of_generator && thread.reader.had_ended(leaf.address)) return leaf;
    return std::nullopt;
}

// Brings `chain` to the state of `walk`. True for a whole chain, whose codes are those that it was copied with; one of
// which that can't be said is forgotten.
bool Sampler::build_whole(const Thread& thread, const Walk& walk, StackBuilder::Chain& chain, Held held) {
    const auto built = build_named(thread, walk, chain, held);
    return built && is_complete(walk, chain, *built);
}

// The path is real; the instructions of its callers may be of another moment.
void Sampler::settle_lines(Thread& thread, const Walk& walk, StackBuilder::Chain& chain) {
    if (!options_.with_lines || thread.seen != ThreadTriage::State::kRunning) return;  // one that sleeps stands still
    const Walk* settled = call_sites_.settle(thread.reader, walk, chain);
    if (settled == nullptr) return;
    const StackBuilder::Chain::Kept kept = chain.kept();
    builder_.build(*settled, chain);
    chain.keep_at_most(kept);
}

Sampler::Sampled Sampler::assess(Thread& thread, const StackBuilder::Chain::Kept& most) {
    Sampled sampled;
    const auto use = [&](StackBuilder::Chain& chain, bool known) {
        sampled.chain = &chain;
        sampled.stack = builder_.stack_of(chain);
        sampled.path = builder_.path_of(chain);
        sampled.names = sampled.path;
        sampled.is_known = known;
        if (known && chain.unchanged < chain.steps.size()) builder_.note_accepted(chain, thread.state.address);
        return sampled;
    };
    const auto keep_leaf = [&](const RawFrame* leaf) {
        sampled.stack = builder_.unproved(leaf);
        const CodeIndex code = leaf == nullptr ? kNoCode : codes_.find(leaf->code);
        if (code != kNoCode) sampled.names = builder_.child_path(kRootPath, code);
        sampled.is_truncated = true;
        return sampled;
    };

    // Where the first reading of the thread lost what it was to copy, the second one dates the sample, a microsecond later.
    // `first`: its leaf, where it may be named; `kept`: what the chain has left of the last sample's.
    const auto take_second_moment = [&](const std::optional<RawFrame>& first, const StackBuilder::Chain::Kept& kept) {
        switch (take_second_copies(thread)) {
            case ThreadReader::Status::kOk:
                return assess(thread, kept);
            case ThreadReader::Status::kGone:
                must_refresh_ = true;
                break;
            case ThreadReader::Status::kNoFrame:
                break;
        }
        return keep_leaf(first ? &*first : nullptr);
    };
    const bool is_late = thread.reader.is_pointer_late() && thread.reader.second_pointer();
    if (thread.reader.leaf() == kNullAddress || is_late) {  // it could not be read with all else
        return thread.reader.has_second_moment() ? take_second_moment({}, {0, 0}) : keep_leaf(nullptr);
    }
    const Walk& walk = thread.reader.walk();
    const RawFrame* leaf = walk.frames.empty() ? nullptr : &walk.frames.front();
    const auto built = build_named(thread, walk, thread.chain, Held::kNo);
    // Where names can't be told on the way, that of the leaf may still be known.
    const auto may_name = [&](const RawFrame& frame) {
        const bool stands_alone = built && !thread.chain.is_cut && sampled.sure_callers == kRootStack;
        return stands_alone || has_sure_name(codes_.find(frame.code));
    };
    thread.chain.keep_at_most(most);
    if (!built) return keep_leaf(leaf != nullptr && may_name(*leaf) ? leaf : nullptr);
    const bool complete = is_complete(walk, thread.chain, *built);
    if (complete && stacks_.is_proved(builder_.path_of(thread.chain))) {
        settle_lines(thread, walk, thread.chain);
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }
    if (complete && thread.seen != ThreadTriage::State::kRunning && stayed_blocked(thread)) {
        builder_.prove(builder_.path_of(thread.chain));  // nothing moved while it was copied
        epoch_.mark_used(thread.chain);
        epoch_.note_proofs(epoch_.is_sure(thread.chain));
        return use(thread.chain, true);
    }

    const auto use_mended = [&](const Walk& mended) {
        settle_lines(thread, mended, thread.chain_other);
        epoch_.mark_used(thread.chain_other);
        return use(thread.chain_other, true);
    };
    const auto use_leaf = [&](const StackBuilder::Step& step) {
        epoch_.mark_used(step.code);
        sampled.stack = step.stack;
        sampled.path = step.path;
        sampled.names = step.path;
        return sampled;
    };
    const auto use_inferred = [&](const StackBuilder::Step& step) {
        sampled.is_inferred = true;
        return use_leaf(step);
    };
    const auto named_leaf = [&] {
        const std::optional<RawFrame> sure = sure_leaf(thread);
        return sure && may_name(*sure) ? sure : std::nullopt;
    };
    const auto sole_stack = [&](const std::optional<RawFrame>& sure) {
        return sure ? builder_.sole_stack(*sure, kInferSightings, thread.state.address) : std::nullopt;
    };
    if (thread.reader.has_second_moment() && !(complete && is_intact_leaf(*leaf))) {
        const Walk* rebuilt = complete ? nullptr : mender_.rebuild(thread.reader);
        if (rebuilt != nullptr && build_whole(thread, *rebuilt, thread.chain_other)) return use_mended(*rebuilt);
        const std::optional<RawFrame> first = named_leaf();
        // Its leaf may be all that is needed: else what lives long would take the place of what lives shortly.
        if (const auto inferred = complete ? std::nullopt : sole_stack(first)) {
            thread.doubt_samples = kTwiceAfterDoubt;
            return use_inferred(*inferred);
        }
        return take_second_moment(first, thread.chain.kept());
    }

    thread.doubt_samples = kTwiceAfterDoubt;
    const Walk& before = thread.reader.walk_other();
    const bool anchored = is_anchored(walk, thread.chain);
    if (anchored && thread.may_prove && thread.reader.is_leaf_between()) {
        if (prove_by_copies(thread, walk, thread.chain)) {
            looks_.note_proof();
            return use(thread.chain, true);
        }
        sampled.sure_callers = sure_callers(thread.chain, complete);
    }
    // The pointer to the leaf was read between the copies: the earlier one may hold what the later lost.
    const auto build_other = [&](const Walk& other) { return build_whole(thread, other, thread.chain_other); };
    const bool has_earlier = thread.reader.is_other_earlier();
    // Where the leaf still stands behind the pointer, the earlier copy must have that one.
    const auto has_other_leaf = [&] { return leaf != nullptr && leaf->address == before.frames.front().address && is_intact_leaf(*leaf) && leaf->code != before.frames.front().code; };
    const bool complete_before = has_earlier && !before.frames.empty() && !has_other_leaf() && build_other(before);
    if (complete_before && stacks_.is_proved(builder_.path_of(thread.chain_other))) {
        epoch_.mark_used(thread.chain_other);
        return use(thread.chain_other, true);
    }
    if (!anchored && complete_before && thread.may_prove) {
        if (prove_by_copies(thread, before, thread.chain_other)) return use(thread.chain_other, true);
        sampled.sure_callers = sure_callers(thread.chain_other, false);
    }
    const auto fits = [&](PathId path) { return stacks_.continues(path, stacks_.node(sampled.sure_callers).path); };
    const Walk* mended = has_earlier ? mender_.mend(thread.reader) : complete ? nullptr : mender_.rebuild(thread.reader);
    if (mended != nullptr && build_other(*mended) && fits(builder_.path_of(thread.chain_other))) return use_mended(*mended);
    // As long as only one path to a leaf is known, its callers follow, now or when the profile is written. A whole chain
    // that says otherwise is asked first: it may be that of a second caller, and be proved later.
    const std::optional<RawFrame> sure = named_leaf();
    if (complete) {
        epoch_.mark_used(thread.chain);
        if (sure && sure->code == leaf->code) builder_.note_leaf(builder_.path_of(thread.chain), thread.state.address);
        return use(thread.chain, false);
    }
    if (const auto inferred = sole_stack(sure); inferred && fits(inferred->path)) return use_inferred(*inferred);
    if (!complete && complete_before && build_other(before)) {
        epoch_.mark_used(thread.chain_other);
        return use(thread.chain_other, false);
    }
    epoch_.mark_used(thread.chain);
    if (sure) {
        if (const auto alone = builder_.leaf_alone(*sure, thread.state.address)) {
            sampled.is_leaf_alone = true;
            return use_leaf(*alone);
        }
    }
    return keep_leaf(leaf != nullptr && may_name(*leaf) ? leaf : nullptr);
}

void Sampler::infer_leaves() { builder_.infer_leaves(kInferSightings); }

// Whatever is proved holds as long as the names do that it went through.
bool Sampler::prove_by_copies(Thread& thread, const Walk& walk, StackBuilder::Chain& chain) {
    if (!is_one_moment_) {
        prover_.forget_last();
        return false;
    }
    const bool is_proved = prover_.prove(thread.reader, walk, chain);
    const CodeIndex beyond = prover_.earlier_callee();
    epoch_.mark_used(chain);
    if (beyond != kNoCode) epoch_.mark_used(beyond);
    epoch_.note_proofs(epoch_.is_sure(chain) && (beyond == kNoCode || epoch_.is_sure(beyond)));
    return is_proved;
}

// What the last try to prove `chain` found of its sample: the callers that stood there when the pointer between the copies was
// read. One that moved between the copies has no line. `is_whole`: the sample shows the leaf of that same chain.
StackId Sampler::sure_callers(const StackBuilder::Chain& chain, bool is_whole) {
    PathProver::Standing standing = prover_.standing();
    for (std::size_t depth = 0; !is_whole && depth < standing.frames; ++depth) {
        if (!has_sure_name(chain.steps[depth].code)) standing = {depth, false};
    }
    while (standing.frames > 0 && codes_.entry(chain.steps[standing.frames - 1].code).is_hidden) standing = {standing.frames - 1, false};
    if (standing.frames == 0) return kRootStack;
    const StackBuilder::Step& last = chain.steps[standing.frames - 1];
    if (!standing.has_moved || builder_.is_full()) return standing.has_moved ? kRootStack : last.stack;
    const StackId callers = standing.frames == 1 ? kRootStack : chain.steps[standing.frames - 2].stack;
    return stacks_.intern_child(callers, builder_.frame_of(last.code, StackBuilder::kNoInstruction), last.path);
}

// The plan has learnt now what the sample missed, so that two copies at once may hold what its own did
// not. It proves the stack of its own moment, and takes no sample: where the thread has stayed until then, that is
// the sample's path.
bool Sampler::prove_by_looks(Thread& thread) {
    const int most = thread.wanted == kRootPath ? 1 : kMostLooks;
    for (int look = 0; look < most && looks_.allows(); ++look) {
        looks_.spend();
        plan_look(thread, ThreadReader::Copies::kAround);
        note_copy(Epoch::CopyFor::kProof);
        read_all(memory_, look_ranges_, look_filled_, look_ahead_.planned_levels);
        note_copied(look_ranges_);
        if (take_copies(thread, look_filled_) != ThreadReader::Status::kOk) return false;
        if (!build_whole(thread, thread.reader.walk(), other_chain_)) continue;
        const bool is_new = !stacks_.is_proved(builder_.path_of(other_chain_));
        if (is_new && prove_by_copies(thread, thread.reader.walk(), other_chain_)) looks_.note_proof();
        if (thread.wanted != kRootPath && stacks_.is_proved(thread.wanted)) return true;
    }
    return false;
}

// The stack at which the thread happens to stand is real. It proves that path and takes no sample: a
// sample taken by a stop would be of another moment than the one that was due.
void Sampler::prove_by_stop(Thread& thread) {
    ranges_.clear();
    thread.reader.plan(ranges_, ThreadReader::Copies::kOne);
    if (thread.runner == nullptr) return;
    bool is_whole = false;
    (void)while_stopped(*thread.runner, [&] {
        note_copy(Epoch::CopyFor::kProof);
        read_ranges();
        const ThreadReader::Status status = thread.reader.take(memory_, filled_, {}, ThreadReader::Motion::kStands);
        // Code that is new is read while its frames stand.
        is_whole = status == ThreadReader::Status::kOk && build_whole(thread, thread.reader.walk(), other_chain_, Held::kStopped);
    });
    if (!is_whole) return;
    builder_.prove(builder_.path_of(other_chain_));
    epoch_.mark_used(other_chain_);
    epoch_.note_proofs(epoch_.is_sure(other_chain_));
    builder_.note_callers(other_chain_);
}

// Calls `work` while the thread is stopped, and returns true; or does neither. The budget of stops pays for both.
bool Sampler::while_stopped(const Thread& runner, const std::function<void()>& work) {
    const nanoseconds began = monotonic_now();
    const bool is_stopped = stopper_->stop(runner.triage.tid());
    if (is_stopped) {
        work();
        stopper_->resume();
    }
    budget_.spend(monotonic_now() - began);
    return is_stopped;
}

// Calls `copy` while the thread is held, if the budget of stops allows it.
bool Sampler::hold(Address thread, const std::function<void()>& copy) {
    if (!budget_.allows(now_ - start_)) return false;
    for (const auto& known : threads_) {
        if (known->state.address != thread || known->runner == nullptr) continue;
        return while_stopped(*known->runner, copy);
    }
    return false;
}

}  // namespace pyprof
