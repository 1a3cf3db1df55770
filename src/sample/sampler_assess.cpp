// SPDX-License-Identifier: Apache-2.0
//
// What one copy of a thread comes to: a known path, one that can be proved now, one that follows, or a leaf alone;
// and what is done for the next samples where this one proved nothing. The rules, their reasons and their limits are
// in docs/how-it-works.md. No rule may favour a stack that holds still: the pointer to the leaf dates the sample, and
// a later look at the thread proves paths but replaces none.
#include "base/clock.h"
#include "sample/sampler.h"

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t kSandwichAfterDoubt = 64;
constexpr std::uint32_t kFreshPlans = 4;
constexpr int kMostLooks = 4;  // at one thread after one sample
// Accepted samples of a leaf after which the one path to it is taken for the only one.
constexpr std::uint32_t kInferSightings = 4;

}  // namespace

bool Sampler::is_complete(const Walk& walk, const StackBuilder::Chain& chain, StackBuilder::Built built) const {
    if (walk.end != WalkEnd::kRoot || built == StackBuilder::Built::kTorn || chain.steps.empty()) return false;
    // Up to 3.10 a generator's frame loses its caller when it yields, and only its code tells what it is.
    return layout_.frame_root != FrameRoot::kThreadFrame || !codes_.entry(chain.steps.front().code).is_generator;
}

// A code object that was read only after the frames were copied may be another one by now. It is not as long as no
// code object was freed since (3.14 on count that), or as its frame still stands there: it holds a reference to it.
bool Sampler::still_stands(const StackBuilder::Chain& chain) {
    if (has(layout_.interpreter.code_object_generation) && !has_freed_code()) return true;
    const std::size_t count = chain.frames.size();
    std::vector<std::uint64_t> codes(chain.read_at.size());
    std::vector<ReadRange> ranges;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const RawFrame& frame = chain.frames[count - 1 - chain.read_at[i]];
        ranges.push_back({frame.address + at(layout_.frame.code), std::as_writable_bytes(std::span(codes).subspan(i, 1))});
    }
    if (memory_.read(ranges).complete != ranges.size()) return false;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (Address{codes[i] & layout_.pointer_mask} != chain.frames[count - 1 - chain.read_at[i]].code) return false;
    }
    return true;
}

// Whether any interpreter has freed a code object since the slices of this tick were read, before all frames.
bool Sampler::has_freed_code() {
    const Offset offset = layout_.interpreter.code_object_generation;
    for (const Interpreter& interpreter : interpreters_) {
        if (!interpreter.has_slice) return true;
        const auto now = read_value<std::uint64_t>(memory_, interpreter.state.address + at(offset));
        if (!now || *now != load<std::uint64_t>(interpreter.slice.data(), at(offset) - slice_begin_)) return true;
    }
    return false;
}

// What stood at the pointer to the leaf when that was read, though its callers are lost.
std::optional<RawFrame> Sampler::sure_leaf(Thread& thread) {
    const Walk& walk = thread.reader.walk();
    if (walk.frames.empty() || walk.frames.front().address != thread.reader.leaf()) return std::nullopt;
    const RawFrame& leaf = walk.frames.front();
    const std::byte* copy = thread.reader.copy_of(leaf.address, true);
    if (copy == nullptr) return leaf;
    const FrameShape::Parsed before = shape_.parse(copy, leaf.address);
    if (!before.is_valid || before.frame.code == leaf.code) return leaf;
    // Another frame stood there earlier. One of the two will do that lives: it was the leaf itself, at most some
    // microseconds from the moment at which the pointer was read.
    const auto lives = [&](const RawFrame& frame) {
        const bool executes = shape_.on_data_stack() != shape_.is_suspended(frame);
        return executes || (shape_.clears_popped_frames() && !frame.of_generator);
    };
    if (lives(leaf)) return leaf;
    const bool has_code = codes_.find(before.frame.code) != kNoCode;
    if (!before.is_shim && has_code && before.frame.of_generator == leaf.of_generator && lives(before.frame)) return before.frame;
    // What an ended generator left behind can't have been resumed since.
    if (leaf.of_generator && thread.reader.had_ended(leaf.address)) return leaf;
    return std::nullopt;
}

// Brings `chain` to the state of `walk`. True for a whole chain, whose codes are those that it was copied with; one of
// which that can't be said is forgotten.
bool Sampler::build_whole(const Walk& walk, StackBuilder::Chain& chain) {
    const StackBuilder::Built built = builder_.build(walk, chain);
    if (chain.read_code && !still_stands(chain)) {
        chain = {};
        return false;
    }
    return is_complete(walk, chain, built);
}

// The path is real; the instructions of its callers may be of another moment.
void Sampler::settle_lines(Thread& thread, const Walk& walk, StackBuilder::Chain& chain) {
    if (!options_.with_lines || thread.seen != ThreadTriage::State::kRunning) return;  // one that sleeps stands still
    const Walk* settled = call_sites_.settle(thread.reader, walk, chain);
    if (settled == nullptr) return;
    const std::size_t unchanged = chain.unchanged;
    builder_.build(*settled, chain);
    chain.unchanged = std::min(unchanged, chain.unchanged);
}

Sampler::Sampled Sampler::assess(Thread& thread) {
    using Built = StackBuilder::Built;
    Sampled sampled;
    const auto use = [&](StackBuilder::Chain& chain, bool known) {
        sampled.chain = &chain;
        sampled.stack = builder_.stack_of(chain);
        sampled.path = builder_.path_of(chain);
        sampled.names = sampled.path;
        sampled.is_known = known;
        if (known && chain.unchanged < chain.steps.size()) builder_.note_accepted(chain);
        return sampled;
    };
    const auto keep_leaf = [&](const RawFrame* leaf) {
        sampled.stack = builder_.unproved(leaf);
        const CodeIndex code = leaf == nullptr ? kNoCode : codes_.find(leaf->code);
        if (code != kNoCode) sampled.names = builder_.child_path(kRootPath, code);
        sampled.is_truncated = true;
        return sampled;
    };

    if (thread.reader.leaf() == kNullAddress) return keep_leaf(nullptr);  // it could not be read
    const Walk& walk = thread.reader.walk();
    const RawFrame* leaf = walk.frames.empty() ? nullptr : &walk.frames.front();
    const Built built = builder_.build(walk, thread.chain);
    if (thread.chain.read_code && !still_stands(thread.chain)) {
        thread.chain.steps.clear();
        thread.chain.frames.clear();
        return keep_leaf(nullptr);
    }
    const bool complete = is_complete(walk, thread.chain, built);
    if (complete && stacks_.is_proved(builder_.path_of(thread.chain))) {
        settle_lines(thread, walk, thread.chain);
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }
    if (complete && thread.seen != ThreadTriage::State::kRunning && stayed_blocked(thread)) {
        builder_.prove(builder_.path_of(thread.chain));  // nothing moved while it was copied
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }

    thread.sandwich_samples = kSandwichAfterDoubt;
    thread.plan_samples = kFreshPlans;
    const Walk& before = thread.reader.walk_before();
    if (complete && thread.may_prove && prover_.prove(thread.reader, thread.chain)) {
        looks_.note_proof();
        epoch_.mark_used(thread.chain);
        return use(thread.chain, true);
    }
    // The pointer to the leaf was read between the copies: the earlier one may hold what the later lost.
    const auto build_other = [&](const Walk& other) { return build_whole(other, thread.chain_before); };
    const bool complete_before = !before.frames.empty() && build_other(before);
    if (complete_before && stacks_.is_proved(builder_.path_of(thread.chain_before))) {
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, true);
    }
    if (const Walk* mended = mender_.mend(thread.reader); mended != nullptr && build_other(*mended)) {
        settle_lines(thread, *mended, thread.chain_before);
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, true);
    }
    // As long as only one path to a leaf is known, its callers follow, now or when the profile is written. A whole chain
    // that says otherwise is asked first: it may be that of a second caller, and be proved later.
    const std::optional<RawFrame> sure = sure_leaf(thread);
    if (complete) {
        epoch_.mark_used(thread.chain);
        if (sure && sure->code == leaf->code) builder_.note_leaf(builder_.path_of(thread.chain));
        return use(thread.chain, false);
    }
    const auto use_leaf = [&](const StackBuilder::Step& step) {
        epoch_.mark_used(step.code);
        sampled.stack = step.stack;
        sampled.path = step.path;
        sampled.names = step.path;
        return sampled;
    };
    if (sure) {
        if (const auto inferred = builder_.sole_stack(*sure, kInferSightings)) {
            sampled.is_inferred = true;
            return use_leaf(*inferred);
        }
    }
    if (!complete && complete_before && build_other(before)) {
        epoch_.mark_used(thread.chain_before);
        return use(thread.chain_before, false);
    }
    epoch_.mark_used(thread.chain);
    if (sure) {
        if (const auto alone = builder_.leaf_alone(*sure)) {
            sampled.is_leaf_alone = true;
            return use_leaf(*alone);
        }
    }
    return keep_leaf(leaf);
}

void Sampler::infer_leaves() { builder_.infer_leaves(kInferSightings); }

// The plan has learnt now what the sample missed, so that a second sandwich at once may hold what the first did
// not. It proves the stack of its own moment, and takes no sample: where the thread has stayed until then, that is
// the sample's path.
bool Sampler::prove_by_looks(Thread& thread) {
    const int most = thread.wanted == kRootPath ? 1 : kMostLooks;
    for (int look = 0; look < most && looks_.allows(); ++look) {
        looks_.spend();
        look_ranges_.clear();
        thread.reader.plan(look_ranges_, true);
        builder_.note_copy();
        read_all(memory_, look_ranges_, look_filled_);
        if (thread.reader.take(memory_, look_filled_) != ThreadReader::Status::kOk) return false;
        if (!build_whole(thread.reader.walk(), other_chain_)) continue;
        const bool is_new = !stacks_.is_proved(builder_.path_of(other_chain_));
        if (is_new && prover_.prove(thread.reader, other_chain_)) looks_.note_proof();
        if (thread.wanted != kRootPath && stacks_.is_proved(thread.wanted)) return true;
    }
    return false;
}

// The stack at which the thread happens to stand is real. It proves that path and takes no sample: a
// sample taken by a stop would be of another moment than the one that was due.
void Sampler::prove_by_stop(Thread& thread) {
    ranges_.clear();
    thread.reader.plan(ranges_, false);
    if (thread.runner == nullptr) return;
    const nanoseconds began = monotonic_now();
    if (!stopper_->stop(thread.runner->triage.tid())) {
        budget_.spend(monotonic_now() - began);
        return;
    }
    builder_.note_copy();
    read_ranges();
    const ThreadReader::Status status = thread.reader.take(memory_, filled_);
    stopper_->resume();
    budget_.spend(monotonic_now() - began);
    if (status != ThreadReader::Status::kOk) return;
    if (!build_whole(thread.reader.walk(), other_chain_)) return;
    builder_.prove(builder_.path_of(other_chain_));
    builder_.note_accepted(other_chain_);
}

// Calls `copy` while the thread is held, if the budget of stops allows it.
bool Sampler::hold(Address thread, const std::function<void()>& copy) {
    if (!budget_.allows(now_ - start_)) return false;
    for (const auto& known : threads_) {
        if (known->state.address != thread || known->runner == nullptr) continue;
        const nanoseconds began = monotonic_now();
        const bool is_held = stopper_->stop(known->runner->triage.tid());
        if (is_held) copy();
        if (is_held) stopper_->resume();
        budget_.spend(monotonic_now() - began);
        return is_held;
    }
    return false;
}

}  // namespace pyprof
