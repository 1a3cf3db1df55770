// SPDX-License-Identifier: Apache-2.0
#include "sample/call_sites.h"

#include <algorithm>
#include <optional>

namespace pyprof {

namespace {

std::optional<RawFrame> other_frame(ThreadReader& reader, const FrameShape& shape, const RawFrame& frame) {
    const std::byte* copy = reader.copy_of(frame.address, true);
    if (copy == nullptr) return std::nullopt;
    const FrameShape::Parsed parsed = shape.parse(copy, frame.address);
    if (!parsed.is_valid || parsed.is_shim || parsed.frame.code != frame.code) return std::nullopt;
    return parsed.frame;
}

}  // namespace

bool CallSites::Callee::has_proved() const {
    return std::any_of(sites.begin(), sites.end(), [](const Site& site) { return site.is_proved; });
}

bool CallSites::Callee::is_proved(std::uint64_t instruction) const {
    return std::any_of(sites.begin(), sites.end(), [instruction](const Site& site) { return site.is_proved && site.instruction == instruction; });
}

CallSites::Site* CallSites::note(Callee& callee, std::uint64_t instruction) {
    auto site = std::find_if(callee.sites.begin(), callee.sites.end(), [instruction](const Site& known) { return known.instruction == instruction; });
    if (site == callee.sites.end()) {
        if (callee.sites.size() >= kMaxSites) return nullptr;
        site = callee.sites.insert(site, Site{instruction, 0, false});
    }
    ++site->sightings;
    return &*site;
}

std::uint64_t CallSites::instruction_of(ThreadReader& reader, const Call& call) {
    if (raw(call.path) >= callees_.size()) callees_.resize(raw(call.path) + 1);
    Callee& callee = callees_[raw(call.path)];
    ++callee.sightings;
    const std::uint64_t read = call.caller.instruction;
    if (callee.is_proved(read)) return read;

    const auto other_caller = other_frame(reader, shape_, call.caller);
    const auto other_callee = other_frame(reader, shape_, call.callee);
    const bool stood = other_caller && other_callee && other_caller->instruction == read;
    // From 3.11 on a caller's own state says whether it waits for the frame above it (C code between the two hides
    // that). Up to 3.10 every caller executes, and only one that stood in both copies is sure.
    const bool has_gone_on = shape_.on_data_stack() ? !call.callee.through_c && !shape_.is_suspended(call.caller) : !stood;
    if (!has_gone_on) {
        Site* site = note(callee, read);
        if (site == nullptr) return read;
        const bool is_common = site->sightings >= kCommonSightings && site->sightings >= callee.sightings / kCommonShare;
        site->is_proved = (stood && site->sightings >= kProvingSightings) || is_common;
        return stood || site->is_proved || !callee.has_proved() ? read : kUnknownInstruction;
    }
    const bool waited = reader.is_other_earlier() && other_caller && (!shape_.on_data_stack() || shape_.is_suspended(*other_caller));
    if (waited && ((other_callee && shape_.on_data_stack()) || callee.is_proved(other_caller->instruction))) {
        return other_caller->instruction;
    }
    // Up to 3.10 a second call that is too short to be seen in both copies would not be known here.
    const bool is_only = shape_.on_data_stack() && callee.sites.size() == 1 && callee.sites.front().is_proved;
    return is_only ? callee.sites.front().instruction : kUnknownInstruction;
}

const Walk* CallSites::settle(ThreadReader& reader, const Walk& walk, const StackBuilder::Chain& chain) {
    const std::size_t count = walk.frames.size();
    if (chain.steps.size() != count) return nullptr;  // its middle is cut
    bool has_changed = false;
    for (std::size_t i = std::max<std::size_t>(chain.unchanged, 1); i < count; ++i) {
        if (chain.steps[i].path == chain.steps[i - 1].path) continue;  // not shown
        const RawFrame& caller = walk.frames[count - i];
        const std::uint64_t instruction = instruction_of(reader, {caller, walk.frames[count - 1 - i], chain.steps[i].path});
        if (instruction == caller.instruction) continue;
        if (!has_changed) settled_ = walk;
        has_changed = true;
        settled_.frames[count - i].instruction = instruction;
    }
    return has_changed ? &settled_ : nullptr;
}

}  // namespace pyprof
