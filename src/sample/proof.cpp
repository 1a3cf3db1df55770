// SPDX-License-Identifier: Apache-2.0
#include "sample/proof.h"

#include <algorithm>

namespace pyprof {

namespace {

// Enough to hold an opcode and the caches of a call on either side of the instruction field.
constexpr std::uint64_t kSiteBefore = 8;
constexpr std::uint64_t kSiteBytes = 24;

const RawFrame& from_root(const Walk& walk, std::size_t depth) {
    return walk.frames[walk.frames.size() - 1 - depth];
}

}  // namespace

PathProver::PathProver(Memory& memory, const Layout& layout, const FrameShape& shape, CodeCache& codes,
                       StackTable& stacks, StackBuilder& builder)
    : memory_(memory),
      layout_(layout),
      shape_(shape),
      codes_(codes),
      stacks_(stacks),
      builder_(builder),
      opcodes_(opcodes_of(layout.version.major, layout.version.minor)) {}

// One call for the bytecode at all callers' instructions.
void PathProver::read_sites(const Walk& after, std::size_t count) {
    sites_.assign(count, Site{});
    if (opcodes_ == nullptr) return;
    site_bytes_.assign(count * kSiteBytes, std::byte{0});
    ranges_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        ranges_.push_back({Address{from_root(after, i).instruction} - kSiteBefore,
                           std::span(site_bytes_).subspan(i * kSiteBytes, kSiteBytes)});
    }
    const std::size_t complete = memory_.read(ranges_).complete;
    for (std::size_t i = 0; i < complete; ++i) {
        const std::byte* at_instruction = site_bytes_.data() + i * kSiteBytes + kSiteBefore;
        sites_[i].opcode = load<std::uint8_t>(at_instruction + opcodes_->opcode_offset, 0);
        if (opcodes_->is(sites_[i].opcode, kHasFunctionVersion)) {
            sites_[i].function_version = load<std::uint32_t>(at_instruction + opcodes_->function_version_offset, 0);
        }
    }
}

bool PathProver::is_waiting(const RawFrame& before, const RawFrame& after, const Site& site) const {
    if (before.instruction != after.instruction) return false;
    if (!shape_.is_suspended(before) || !shape_.is_suspended(after)) return false;
    if (opcodes_ == nullptr || shape_.clears_popped_frames()) return true;
    // A popped frame of 3.11 to 3.13 looks suspended from its return instruction on.
    return opcodes_->is(site.opcode, kCallsPythonStrict);
}

bool PathProver::enough_sightings(PathId path) {
    if (sightings_.size() > kMaxSightings) sightings_.clear();
    return ++sightings_[raw(path)] >= kSightingsThroughC;
}

bool PathProver::prove(ThreadReader& reader, const StackBuilder::Chain& chain) {
    const Walk& after = reader.walk();
    const std::size_t count = std::min(after.frames.size(), chain.steps.size());
    if (after.end != WalkEnd::kRoot || after.frames.size() > kMaxFrames) return false;
    earlier_.clear();
    while (earlier_.size() < count) {
        const std::size_t depth = earlier_.size();
        const RawFrame& frame = from_root(after, depth);
        const Address caller = depth == 0 ? kNullAddress : from_root(after, depth - 1).address;
        const auto before = reader.frame_before(frame.address, caller);
        if (!before || before->code != frame.code || before->through_c != frame.through_c) break;
        earlier_.push_back(*before);
    }
    const std::size_t equal = earlier_.size();
    if (equal == 0) return false;
    read_sites(after, equal);

    const bool marks_callers_in_c = opcodes_ == nullptr || shape_.clears_popped_frames();
    bool proved_whole = false;
    for (std::size_t i = 0; i < equal; ++i) {
        // All callers of frame i wait, so what stands above them in both copies is their callee.
        const PathId path = chain.steps[i].path;
        if (!stacks_.is_proved(path)) {
            const bool through_unmarked_c = i > 0 && from_root(after, i).through_c && !marks_callers_in_c;
            if (through_unmarked_c && !enough_sightings(path)) return false;
            stacks_.prove(path);
            ++proofs_;
        }
        if (i + 1 == after.frames.size()) {
            proved_whole = true;
            break;
        }
        const RawFrame& a = earlier_[i];
        const RawFrame& b = from_root(after, i);
        const bool calls_through_c = i + 1 < count && from_root(after, i + 1).through_c;
        if (calls_through_c && !marks_callers_in_c) {
            if (a.instruction != b.instruction || opcodes_->is(sites_[i].opcode, kReturns)) break;
            continue;
        }
        if (!is_waiting(a, b, sites_[i])) break;
        // The callee may have changed between the copies; which function it was, the caller's cache says.
        if (i + 1 == equal && sites_[i].function_version != 0) {
            const CodeIndex callee = codes_.find_version(sites_[i].function_version);
            if (callee != kNoCode) stacks_.prove(builder_.child_path(path, callee));
        }
    }
    return proved_whole || (count == after.frames.size() && stacks_.is_proved(chain.steps.back().path));
}

}  // namespace pyprof
