// SPDX-License-Identifier: Apache-2.0
#include "sample/proof.h"

#include <algorithm>

namespace pyprof {

namespace {

// From the longest inline cache before the instruction field to the function version behind it.
constexpr std::uint64_t kSiteBefore = Opcodes::kMaxCacheUnits * 2;
constexpr std::uint64_t kSiteBytes = kSiteBefore + 8;

const RawFrame& from_root(const Walk& walk, std::size_t depth) {
    return walk.frames[walk.frames.size() - 1 - depth];
}

}  // namespace

PathProver::PathProver(Memory& memory, const Layout& layout, const FrameShape& shape, CodeCache& codes,
                       StackTable& stacks, StackBuilder& builder)
    : memory_(memory),
      shape_(shape),
      codes_(codes),
      stacks_(stacks),
      builder_(builder),
      opcodes_(opcodes_of(layout.version.major, layout.version.minor)) {}

// One call for the bytecode at all callers' instructions.
void PathProver::read_sites(const Walk& walk, std::size_t count) {
    sites_.assign(count, Site{});
    if (opcodes_ == nullptr) return;
    site_bytes_.assign(count * kSiteBytes, std::byte{0});
    ranges_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        ranges_.push_back({Address{from_root(walk, i).instruction} - kSiteBefore,
                           std::span(site_bytes_).subspan(i * kSiteBytes, kSiteBytes)});
    }
    const std::size_t complete = memory_.read(ranges_).complete;
    for (std::size_t i = 0; i < complete; ++i) {
        const auto bytes = std::span<const std::byte>(site_bytes_).subspan(i * kSiteBytes, kSiteBytes);
        const std::byte* at_instruction = bytes.data() + kSiteBefore;
        sites_[i].waiting = opcodes_->waiting_for(bytes.first(kSiteBefore + 2));
        const auto opcode = load<std::uint8_t>(at_instruction + opcodes_->opcode_offset, 0);
        if (opcodes_->is(opcode, kHasFunctionVersion)) {
            sites_[i].function_version = load<std::uint32_t>(at_instruction + opcodes_->function_version_offset, 0);
        }
    }
}

bool PathProver::is_waiting(const RawFrame& before, const RawFrame& after, std::size_t depth,
                            const StackBuilder::Chain& chain) const {
    if (before.instruction != after.instruction) return false;
    if (!shape_.is_suspended(before) || !shape_.is_suspended(after)) return false;
    if (opcodes_ == nullptr || shape_.clears_popped_frames()) return true;
    // On 3.11 to 3.13 a frame looks suspended before its first instruction, too, and from its return
    // instruction until it is gone: only at a call it waits for the frame above it.
    return sites_[depth].is_call() && chain.steps[depth].instruction > 0;
}

// Whether the frame has begun and was not left yet, by its own state. Up to 3.10 a live one executes: a freed
// one keeps its code, and a list of free frames looks like a stack. Before its first instruction, a frame's
// caller may still be that of the frame that stood there before. From 3.14 on a popped frame has no code; on
// 3.11 to 3.13 it looks as if it waited, but not at a call.
bool PathProver::is_live(const RawFrame& frame, std::size_t depth, const StackBuilder::Chain& chain,
                         std::uint64_t site) const {
    if (!shape_.on_data_stack() || !shape_.is_suspended(frame)) return shape_.is_suspended(frame) != shape_.on_data_stack();
    const auto instruction = codes_.instruction_index(chain.steps[depth].code, frame.instruction);
    if (!instruction || *instruction <= 0) return false;
    return shape_.clears_popped_frames() || (frame.instruction == site && sites_[depth].is_call());
}

// What the instruction of the caller at `depth` says of the frame above it. While it waits for a generator,
// the rest of an earlier callee stands where its next one would.
bool PathProver::can_stand_above(const RawFrame& callee, std::size_t depth) const {
    if (opcodes_ == nullptr) return true;
    const Opcodes::Waiting& waiting = sites_[depth].waiting;
    if (callee.through_c) return waiting.in_call || !waiting.in_generator;
    return callee.of_generator ? waiting.in_generator : waiting.in_call;
}

// Frames of the data stack stand one behind the other, each as long as its code says.
bool PathProver::is_in_order(const ThreadReader& reader, const RawFrame& frame, CodeIndex code) {
    if (!shape_.on_data_stack() || frame.of_generator) return true;
    const bool fits = next_frame_ == kNullAddress || frame.address == next_frame_ || reader.is_chunk_start(frame.address);
    const std::uint64_t words = codes_.entry(code).frame_words;
    next_frame_ = words == 0 ? kNullAddress : frame.address + 8 * words;
    return fits;
}

bool PathProver::enough_sightings(PathId path, std::uint8_t wanted) {
    if (sightings_.size() > kMaxSightings) sightings_.clear();
    std::uint8_t& seen = sightings_[raw(path)];
    if (seen < wanted) ++seen;
    return seen >= wanted;
}

// How often the earlier copy must show a callee before it is believed. A copy that is held up between the two frames, while the
// program goes once around, shows the callee of another caller: the two copies of the caller alone don't tell. Where
// the call's inline cache names the callee, that can't be.
std::uint8_t PathProver::sightings_for(const Site& site, CodeIndex callee) const {
    const std::uint32_t version = codes_.entry(callee).version;
    if (version == 0 || site.function_version == 0) return kSightings;
    return site.function_version == version ? 1 : kSightingsAgainstCache;
}

void PathProver::prove_earlier_callee(ThreadReader& reader, const RawFrame& caller, std::size_t depth,
                                      const StackBuilder::Step& step) {
    const std::uint64_t words = codes_.entry(step.code).frame_words;
    if (words == 0 || caller.of_generator) return;
    // The first one of a sample is made leaf first: its callers in lower chunks were read after the callee.
    if (!reader.is_other_earlier() && reader.has_several_chunks()) return;
    // What was read for want of a planned copy is younger than both.
    const Address above = caller.address + 8 * words;
    if (reader.copy_of(above, reader.is_other_earlier()) == nullptr) return;
    const auto callee = reader.frame_in(above, caller.address, reader.is_other_earlier());
    if (!callee || callee->through_c || !sites_[depth].waiting.in_call) return;
    const CodeIndex code = codes_.find(callee->code);
    if (code == kNoCode || builder_.is_newer_than_copy(code)) return;  // by now another function may stand there
    // What is left of an earlier callee stands there, too, while the caller waits for a generator: it has been
    // left, or was not begun (see is_live).
    const auto instruction = codes_.instruction_index(code, callee->instruction);
    if (!instruction) return;
    if (shape_.is_suspended(*callee) && (*instruction <= 0 || !shape_.clears_popped_frames())) return;
    const PathId path = builder_.child_path(step.path, code);
    if (!stacks_.is_proved(path) && !enough_sightings(path, sightings_for(sites_[depth], code))) return;
    builder_.prove(path);
    earlier_callee_ = code;
}

// A code that is reached by one path alone can't mix two callers' stacks. What its call site says it calls
// was called under that path.
void PathProver::extend_by_sole_callers(const Walk& walk, const StackBuilder::Chain& chain) {
    for (std::size_t i = 0; i + 1 < chain.steps.size(); ++i) {
        const StackBuilder::Step& caller = chain.steps[i];
        const StackBuilder::Step& callee = chain.steps[i + 1];
        if (!stacks_.is_proved(caller.path)) return;
        if (stacks_.is_proved(callee.path)) continue;
        const std::uint32_t version = codes_.entry(callee.code).version;
        if (version == 0 || sites_[i].function_version != version || from_root(walk, i + 1).through_c) return;
        if (!builder_.is_sole(caller.path, kSoleSightings)) return;
        builder_.prove(callee.path);
    }
}

// The frames of `walk`, from the root up, that the other copy holds as well: same code, same caller, entered alike.
std::size_t PathProver::find_in_both(ThreadReader& reader, const Walk& walk, std::size_t count) {
    const bool is_other = &walk == &reader.walk_other();
    const bool is_earlier = is_other == reader.is_other_earlier();
    earlier_.clear();
    later_.clear();
    for (std::size_t depth = 0; depth < count; ++depth) {
        const RawFrame& frame = from_root(walk, depth);
        const Address caller = depth == 0 ? kNullAddress : from_root(walk, depth - 1).address;
        const auto other = reader.frame_in(frame.address, caller, !is_other);
        if (!other || other->code != frame.code || other->through_c != frame.through_c) break;
        earlier_.push_back(is_earlier ? frame : *other);
        later_.push_back(is_earlier ? *other : frame);
    }
    return earlier_.size();
}

bool PathProver::prove(ThreadReader& reader, const Walk& walk, const StackBuilder::Chain& chain) {
    const std::size_t count = std::min(walk.frames.size(), chain.steps.size());
    forget_last();
    if (walk.end != WalkEnd::kRoot || walk.frames.size() > kMaxFrames) return false;
    const std::size_t equal = find_in_both(reader, walk, count);
    if (equal == 0) return false;
    read_sites(walk, count);

    next_frame_ = kNullAddress;
    const bool marks_callers_in_c = opcodes_ == nullptr || shape_.clears_popped_frames();
    bool proved_whole = false;
    bool is_sure = true;  // until a frame through C is met that was not sighted often enough
    for (std::size_t i = 0; i < equal; ++i) {
        const bool is_leaf = i + 1 == walk.frames.size();
        const RawFrame& a = earlier_[i];
        const RawFrame& b = later_[i];
        const std::uint64_t site = from_root(walk, i).instruction;
        if (!is_live(a, i, chain, site) || !is_live(b, i, chain, site)) break;
        if (!is_in_order(reader, b, chain.steps[i].code) || (i > 0 && !can_stand_above(b, i - 1))) break;
        // All callers of frame i wait, so what stands above them in both copies is their callee.
        const PathId path = chain.steps[i].path;
        if (!stacks_.is_proved(path)) {
            const bool through_unmarked_c = i > 0 && b.through_c && !marks_callers_in_c;
            if (through_unmarked_c && !enough_sightings(path, kSightings)) is_sure = false;
            if (is_sure) {
                builder_.prove(path);
                ++proofs_;
            }
        }
        if (is_sure) standing_ = {i + 1, a.instruction != b.instruction};
        if (is_leaf) {
            proved_whole = is_sure;
            break;
        }
        const bool calls_through_c = i + 1 < count && from_root(walk, i + 1).through_c;
        if (calls_through_c && !marks_callers_in_c) {
            // Before 3.14 a call of C leaves no mark: the caller executes, which a popped frame does not.
            if (a.instruction != b.instruction || shape_.is_suspended(a) || shape_.is_suspended(b)) break;
            continue;
        }
        if (!is_waiting(a, b, i, chain)) break;
        // The callee changed between the copies. That of the earlier copy was read after its callers there
        // and before they were read again: it is theirs.
        if (i + 1 == equal && is_sure) prove_earlier_callee(reader, b, i, chain.steps[i]);
    }
    if (!proved_whole) extend_by_sole_callers(walk, chain);
    return proved_whole || (count == walk.frames.size() && stacks_.is_proved(chain.steps.back().path));
}

}  // namespace pyprof
