// SPDX-License-Identifier: Apache-2.0
//
// Whether the code objects of a chain are those that its frames referred to when they were copied: one that was read
// later, or long before, may be another by now. It looks at the target once more and trusts no address alone. What can't
// be said here the epoch says later (sample/epoch.h).
#include "base/clock.h"
#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pyprof {

// Frames are copied now.
void Sampler::note_copy(Epoch::CopyFor what) {
    builder_.note_copy();
    epoch_.note_copy(what);
    copied_at_ = monotonic_now();
}

// They have been copied by now.
void Sampler::note_copied(std::span<const ReadRange> ranges) {
    copied_by_ = monotonic_now();
    std::size_t bytes = 0;
    for (const ReadRange& range : ranges) bytes += range.to.size();
    const std::chrono::nanoseconds took = copied_by_ - copied_at_;
    is_read_at_once_ = pace_.note(ranges.size(), bytes, took) || took <= options_.one_moment / 3;
}

// Walks the copies. What the plan missed is read only now, and may be too late to prove anything.
ThreadReader::Status Sampler::take_copies(Thread& thread, std::span<const std::uint8_t> filled) {
    const std::uint64_t misses = thread.reader.misses();
    thread.was_late = false;
    const ThreadReader::Status status = thread.reader.take(memory_, filled);
    is_one_moment_ = is_read_at_once_;
    note_misses(thread, misses);
    return status;
}

// The same of a sample's second reading.
ThreadReader::Status Sampler::take_second_copies(Thread& thread) {
    const std::uint64_t misses = thread.reader.misses();
    ++figures_.second_readings;
    const ThreadReader::Status status = thread.reader.take_second_moment(memory_);
    note_misses(thread, misses);
    return status;
}

void Sampler::note_misses(Thread& thread, std::uint64_t before) {
    if (thread.reader.misses() == before) return;
    thread.was_late = true;
    is_one_moment_ = is_one_moment_ && monotonic_now() - copied_by_ <= options_.one_moment;
}

// Brings `chain` to the state of `walk`, as far as its names can be told: the rest is left out, and the chain counts as
// torn. Nothing, and a forgotten chain, where none can.
std::optional<StackBuilder::Built> Sampler::build_named(const Thread& thread, const Walk& walk, StackBuilder::Chain& chain, Held held) {
    constexpr int kMostBuilds = 3;  // code that is replaced faster than it is read has no name
    StackBuilder::Chain::Kept kept;
    for (int builds = 1; builds <= kMostBuilds; ++builds) {
        const StackBuilder::Built built = builder_.build(walk, chain);
        chain.keep_at_most(kept);
        kept = chain.kept();
        if (built == StackBuilder::Built::kTorn && drop_misfit(chain)) continue;
        const Names names = check_names(thread, chain, held);
        if (names == Names::kReplaced) continue;
        if (names == Names::kUnknown && chain.steps.empty()) break;
        if (epoch_.is_wary()) epoch_.mark_used(chain);  // a chain that is built next may drop what this one needs
        return names == Names::kUnknown ? StackBuilder::Built::kTorn : built;
    }
    chain = {};
    return std::nullopt;
}

// An instruction outside its code is that of another moment; or of a code object that has taken the known one's place.
// Nothing else would tell the latter: what no sample goes through the epoch never asks.
bool Sampler::drop_misfit(const StackBuilder::Chain& chain) {
    if (chain.misfit == kNoCode || builder_.is_newer_than_copy(chain.misfit)) return false;
    codes_.compare(std::span(&chain.misfit, 1), stamps_hold_);
    if (stamps_hold_[0]) return false;
    epoch_.drop_replaced(chain.misfit);
    return true;
}

// A code object that was read after the frames were copied may be another one by now; in a target that makes and drops
// code so may one that was read long before. Names are sure where no code object was freed since (3.14 on count that); or
// where, after they were read, their stamps hold and then their frames are live and refer to what they did, since a live
// frame holds a reference to its code: then they are right for the copy, whatever becomes of the code. What is not sure the
// epoch must confirm.
Sampler::Names Sampler::check_names(const Thread& thread, StackBuilder::Chain& chain, Held held) {
    const bool is_wary = epoch_.is_wary() && (shape_.on_data_stack() || held == Held::kStopped);
    ++asking_;
    asked_depths_.clear();
    asked_codes_.clear();
    const auto ask = [&](std::size_t depth) {
        if (depth >= chain.steps.size() || epoch_.is_sure(chain.steps[depth].code)) return;
        CodeCache::Entry& entry = codes_.entry(chain.steps[depth].code);
        if (std::exchange(entry.last_asked, asking_) == asking_) return;  // recursion: nearer to the root it is asked already
        asked_depths_.push_back(depth);
        asked_codes_.push_back(chain.steps[depth].code);
    };
    if (is_wary) {
        for (std::size_t depth = 0; depth < chain.steps.size(); ++depth) ask(depth);
    } else {
        for (const std::uint32_t depth : chain.read_at) ask(depth);
    }
    if (asked_codes_.empty()) return Names::kGood;
    const bool counts_freed = has(layout_.interpreter.code_object_generation);
    if (!is_wary && (held == Held::kStopped || (counts_freed && !has_freed_code()))) {
        for (const CodeIndex code : asked_codes_) epoch_.note_sure(code);
        return Names::kGood;
    }
    codes_.compare(asked_codes_, stamps_hold_);
    const std::size_t count = chain.steps.size();
    const Standing standing = held == Held::kStopped ? Standing{count, count} : count_standing(thread, chain);
    const bool is_late = held == Held::kNo && is_too_late(thread, chain.read_at.size());
    std::size_t kept = count;
    for (std::size_t i = asked_codes_.size(); i-- > 0;) {
        if (asked_depths_[i] >= standing.live || is_late) continue;
        if (stamps_hold_[i]) {
            epoch_.note_sure(asked_codes_[i]);
        } else {
            epoch_.drop_replaced(asked_codes_[i]);
            kept = asked_depths_[i];
        }
    }
    if (kept < count) {
        chain.steps.resize(kept);
        return Names::kReplaced;
    }
    const auto unknown = std::find_if(chain.read_at.begin(), chain.read_at.end(), [&](std::uint32_t depth) {
        return depth < count && (is_late || depth >= standing.frames) && !epoch_.is_sure(chain.steps[depth].code);
    });
    if (unknown == chain.read_at.end()) return Names::kGood;
    const auto unsure = std::find_if(chain.read_at.begin(), unknown, [&](std::uint32_t depth) { return !epoch_.is_sure(chain.steps[depth].code); });
    chain.steps.resize(*unsure);
    chain.is_cut = true;
    return Names::kUnknown;
}

// How many frames from the root on refer to the code that they were copied with; and how many of these were live while
// they did. A popped frame keeps its code pointer up to 3.13, but stands above the top of the data stack; what is below
// a live frame is live. Up to 3.10 nothing tells.
Sampler::Standing Sampler::count_standing(const Thread& thread, const StackBuilder::Chain& chain) {
    const std::size_t count = chain.steps.size();
    const Layout::Thread& fields = layout_.thread;
    std::array<std::uint64_t, 3> stack{};  // chunk, top, limit; read before the frames
    const std::array offsets{fields.datastack_chunk, fields.datastack_top, fields.datastack_limit};
    const bool tells_top = has(fields.datastack_chunk) && has(fields.datastack_top) && has(fields.datastack_limit);
    standing_codes_.assign(count, 0);
    look_ranges_.clear();
    for (std::size_t i = 0; tells_top && i < offsets.size(); ++i) {
        look_ranges_.push_back({thread.state.address + at(offsets[i]), std::as_writable_bytes(std::span(stack).subspan(i, 1))});
    }
    const std::size_t before = look_ranges_.size();
    const auto frame_at = [&](std::size_t depth) -> const RawFrame& { return chain.frames[chain.frames.size() - 1 - depth]; };
    for (std::size_t depth = 0; depth < count; ++depth) {
        look_ranges_.push_back({frame_at(depth).address + at(layout_.frame.code),
                                std::as_writable_bytes(std::span(standing_codes_).subspan(depth, 1))});
    }
    const std::size_t complete = memory_.read(look_ranges_).complete;
    Standing standing;
    if (complete < before) return standing;
    while (standing.frames < complete - before) {
        const RawFrame& frame = frame_at(standing.frames);
        if (Address{standing_codes_[standing.frames] & layout_.pointer_mask} != frame.code) break;
        ++standing.frames;
        const bool is_below_top = tells_top && is_within(frame.address, Address{stack[0]}, Address{std::min(stack[1], stack[2])});
        if (shape_.clears_popped_frames() || (is_below_top && !frame.of_generator)) standing.live = standing.frames;
    }
    return standing;
}

// After a while the next call may stand there, its code at the same address: where we were put off the processor
// between the copy and now, frames that look the same say nothing.
bool Sampler::is_too_late(const Thread& thread, std::size_t codes_read) const {
    const auto tens = static_cast<std::int64_t>(codes_read / 10);
    if ((monotonic_now() - copied_at_) / (1 + tens) <= options_.name_within) return false;
    return thread.seen == ThreadTriage::State::kRunning || !stayed_blocked(thread);
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

}  // namespace pyprof
