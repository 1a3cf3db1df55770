// SPDX-License-Identifier: Apache-2.0
#include "sample/stack_builder.h"

#include <algorithm>
#include <string>

namespace pyprof {

namespace {

// Identities count from 0 up, the numbers of separate roots from ~0 down.
constexpr std::uint32_t kLeavesRoot = 1U << 31;
constexpr std::size_t kMaxLeaves = 1U << 16;
constexpr std::uint32_t kMaxLeafThreads = 256;

}  // namespace

StackBuilder::StackBuilder(CodeCache& codes, StackTable& stacks, bool with_lines)
    : codes_(codes), stacks_(stacks), with_lines_(with_lines) {}

FrameId StackBuilder::frame_of(CodeIndex code, std::int32_t instruction) {
    const CodeCache::Entry& entry = codes_.entry(code);
    Frame frame;
    frame.kind = FrameKind::kPython;
    frame.name = entry.name;
    frame.file = entry.file;
    frame.line = with_lines_ ? codes_.line_at(code, instruction) : 0;
    return stacks_.intern_frame(frame);
}

PathId StackBuilder::child_path(PathId parent, CodeIndex code) {
    return extend_path(parent, codes_.entry(code).identity);
}

PathId StackBuilder::extend_path(PathId parent, std::uint32_t identity) {
    const PathId path = stacks_.intern_path(parent, identity);
    if (raw(path) >= path_identity_.size()) path_identity_.resize(raw(path) + 1, ~0U);
    path_identity_[raw(path)] = identity;
    return path;
}

PathId StackBuilder::separate_root(std::uint32_t which) {
    const PathId path = stacks_.intern_path(kRootPath, ~which);  // identities count from 0 up
    if (raw(path) >= path_identity_.size()) path_identity_.resize(raw(path) + 1, ~0U);
    stacks_.prove(path);
    return path;
}

bool StackBuilder::step_to(const Step& parent, const RawFrame& frame, CodeIndex code, Chain& chain, Step& step) {
    if (code == kNoCode) return false;
    step.code = code;
    if (codes_.entry(step.code).serial >= copy_serial_) chain.read_at.push_back(static_cast<std::uint32_t>(chain.steps.size()));
    const auto instruction = frame.instruction == kUnknownInstruction
                                 ? std::optional(kNoInstruction)
                                 : codes_.instruction_index(step.code, frame.instruction);
    if (!instruction) {
        chain.misfit = step.code;
        return false;
    }
    step.instruction = *instruction;
    if (codes_.entry(step.code).is_hidden) {
        step.stack = parent.stack;
        step.path = parent.path;
        return true;
    }
    const EdgeKey key{raw(parent.stack), codes_.entry(step.code).serial, *instruction};
    const auto known = edges_.find(key);
    if (known != edges_.end()) {
        step.stack = known->second.stack;
        step.path = known->second.path;
        return true;
    }
    if (is_full()) return false;
    step.path = child_path(parent.path, step.code);
    step.stack = stacks_.intern_child(parent.stack, frame_of(step.code, *instruction), step.path);
    if (edges_.size() >= kMaxEdges) edges_.clear();
    edges_[key] = {step.stack, step.path};
    return true;
}

// Looks up the codes of `frames`, once each and root first; those that are not known are read together.
void StackBuilder::find_codes(std::span<const RawFrame> frames) {
    new_codes_.clear();
    found_codes_.clear();
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        found_codes_.push_back(codes_.find(frame->code));
        if (found_codes_.back() == kNoCode) new_codes_.push_back(frame->code);
    }
    if (new_codes_.empty()) return;
    codes_.load_codes(new_codes_);
    for (std::size_t i = 0; i < found_codes_.size(); ++i) {
        if (found_codes_[i] == kNoCode) found_codes_[i] = codes_.find(frames[frames.size() - 1 - i].code);
    }
}

StackBuilder::Built StackBuilder::build(const Walk& walk, Chain& chain) {
    const std::vector<RawFrame>* frames = &walk.frames;
    std::size_t cut_at = 0;  // from the root: a marker stands before this frame
    if (frames->size() > kMaxFrames) {
        cut_at = kMaxFrames / 2;
        cut_.frames.assign(frames->begin(), frames->begin() + static_cast<std::ptrdiff_t>(kMaxFrames - cut_at));
        cut_.frames.insert(cut_.frames.end(), frames->end() - static_cast<std::ptrdiff_t>(cut_at), frames->end());
        frames = &cut_.frames;
    }
    if (chain.drops != codes_.drops()) {
        chain.drops = codes_.drops();
        const auto dropped = std::find_if(chain.steps.begin(), chain.steps.end(), [&](const Step& step) { return !codes_.entry(step.code).is_alive; });
        chain.steps.erase(dropped, chain.steps.end());
    }
    const std::size_t count = frames->size();
    std::size_t common = 0;  // frames from the root that are as they were
    const std::size_t most = std::min({count, chain.frames.size(), chain.steps.size()});
    while (common < most && (*frames)[count - 1 - common] == chain.frames[chain.frames.size() - 1 - common]) ++common;
    chain.read_at.clear();
    chain.misfit = kNoCode;
    chain.is_cut = false;
    chain.unchanged = common;
    chain.same_calls = common;
    if (common == count && chain.steps.size() == count && chain.frames.size() == count) {
        return Built::kSame;
    }
    while (chain.same_calls < most) {
        const RawFrame& before = chain.frames[chain.frames.size() - 1 - chain.same_calls];
        const RawFrame& now = (*frames)[count - 1 - chain.same_calls];
        if (before.address != now.address || before.code != now.code) break;
        ++chain.same_calls;
        // A caller that has gone on has called anew. Where its instruction is not known it need not have.
        const bool is_known = before.instruction != kUnknownInstruction && now.instruction != kUnknownInstruction;
        if (is_known && before.instruction != now.instruction) break;
    }
    chain.frames = *frames;
    chain.steps.resize(common);
    chain.marked_epoch = 0;
    find_codes(std::span(chain.frames).first(count - common));
    Step parent = common == 0 ? Step{} : chain.steps.back();
    for (std::size_t depth = common; depth < count; ++depth) {
        if (cut_at != 0 && depth == cut_at) parent.stack = marker(parent.stack, parent.path, "[truncated]");
        Step step;
        if (!step_to(parent, chain.frames[count - 1 - depth], found_codes_[depth - common], chain, step)) return Built::kTorn;
        chain.steps.push_back(step);
        parent = step;
    }
    return Built::kChanged;
}

StackBuilder::Lineage& StackBuilder::lineage_of(std::uint32_t identity) {
    if (identity >= lineages_.size()) lineages_.resize(identity + 1);
    return lineages_[identity];
}

void StackBuilder::prove(PathId path) {
    for (PathId p = path; p != kRootPath && !stacks_.is_proved(p); p = stacks_.parent_path(p)) {
        Lineage& lineage = lineage_of(identity_of(p));
        if (lineage.paths++ == 0) lineage.first = p;
    }
    prove_joined(path);
}

void StackBuilder::prove_joined(PathId path) {
    for (PathId p = path; !stacks_.is_proved(p); p = stacks_.parent_path(p)) new_proofs_.push_back(p);
    stacks_.prove(path);
}

void StackBuilder::take_proofs(std::vector<PathId>& proofs) {
    proofs.insert(proofs.end(), new_proofs_.begin(), new_proofs_.end());
    new_proofs_.clear();
}

void StackBuilder::disprove(PathId path) {
    stacks_.disprove(path);
    Lineage& lineage = lineage_of(identity_of(path));
    // Of several paths it is not known which was the second: then the code counts as one of many callers.
    if (lineage.paths > 0 && (lineage.first != path || lineage.paths == 1)) --lineage.paths;
}

// Another thread's stacks say nothing of this one's: what both run may have other callers here.
void StackBuilder::note_thread(Address& seen_in, Address thread) {
    if (seen_in != thread) seen_in = seen_in == kNullAddress ? thread : kSeveralThreads;
}

// A call that goes on counts once, however many samples meet it: of one long call nothing follows for the next ones.
void StackBuilder::note_accepted(const Chain& chain, Address thread) {
    note_callers(chain);
    for (std::size_t i = chain.unchanged; i < chain.steps.size(); ++i) {
        Lineage& lineage = lineage_of(codes_.entry(chain.steps[i].code).identity);
        if (i >= chain.same_calls) ++lineage.sightings;
        note_thread(lineage.seen_in, thread);
    }
}

void StackBuilder::note_callers(const Chain& chain) {
    for (std::size_t i = chain.unchanged; i < chain.steps.size(); ++i) {
        const Step& step = chain.steps[i];
        if (codes_.entry(step.code).is_hidden) continue;  // its path is its caller's
        if (raw(step.path) >= last_callers_.size()) last_callers_.resize(raw(step.path) + 1, kRootStack);
        last_callers_[raw(step.path)] = i == 0 ? kRootStack : chain.steps[i - 1].stack;
    }
}

bool StackBuilder::is_sole(PathId path, std::uint32_t sightings) const {
    const std::uint32_t identity = identity_of(path);
    if (identity >= lineages_.size()) return false;
    const Lineage& lineage = lineages_[identity];
    return lineage.paths == 1 && lineage.first == path && lineage.sightings >= sightings;
}

std::optional<StackBuilder::Step> StackBuilder::sole_stack(const RawFrame& leaf, std::uint32_t sightings, Address thread) {
    Step step;
    step.code = codes_.find(leaf.code);
    if (step.code == kNoCode) return std::nullopt;
    const auto instruction = codes_.instruction_index(step.code, leaf.instruction);
    if (!instruction) return std::nullopt;
    const std::uint32_t identity = codes_.entry(step.code).identity;
    const auto callers = sole_callers(identity, sightings, thread);
    if (!callers) return std::nullopt;
    step.path = lineages_[identity].first;
    step.instruction = *instruction;
    step.stack = stacks_.intern_child(*callers, frame_of(step.code, *instruction), step.path);
    return step;
}

std::optional<StackId> StackBuilder::sole_callers(std::uint32_t identity, std::uint32_t sightings, Address thread) const {
    if (identity >= lineages_.size()) return std::nullopt;
    const PathId path = lineages_[identity].first;
    if (path == kRootPath || !is_sole(path, sightings) || raw(path) >= last_callers_.size()) return std::nullopt;
    const Address seen_in = lineages_[identity].seen_in;
    if (seen_in != thread && seen_in != kSeveralThreads) return std::nullopt;
    const StackId callers = last_callers_[raw(path)];
    if (callers == kRootStack && stacks_.parent_path(path) != kRootPath) return std::nullopt;
    return callers;
}

std::optional<StackBuilder::Step> StackBuilder::leaf_alone(const RawFrame& leaf, Address thread) {
    Step step;
    step.code = codes_.find(leaf.code);
    if (step.code == kNoCode || is_full()) return std::nullopt;
    const auto instruction = codes_.instruction_index(step.code, leaf.instruction);
    if (!instruction) return std::nullopt;
    step.path = child_path(leaves_root(thread), step.code);
    step.instruction = *instruction;
    const StackId unknown = marker(kRootStack, kRootPath, "[unproved]");
    step.stack = stacks_.intern_child(unknown, frame_of(step.code, *instruction), step.path);
    note_leaf(step.path, thread);
    return step;
}

PathId StackBuilder::leaves_root(Address thread) {
    const auto known = std::find(leaf_threads_.begin(), leaf_threads_.end(), thread);
    const auto index = static_cast<std::uint32_t>(known - leaf_threads_.begin());
    if (known == leaf_threads_.end() && index < kMaxLeafThreads) leaf_threads_.push_back(thread);
    const PathId path = stacks_.intern_path(kRootPath, kLeavesRoot + index);  // the last one is that of all that are too many
    if (raw(path) >= path_identity_.size()) path_identity_.resize(raw(path) + 1, ~0U);
    return path;
}

StackId StackBuilder::above_callers(StackId callers, StackId stack, bool is_leaf) {
    Frame frame;
    frame.kind = FrameKind::kUnproved;
    frame.line = static_cast<std::int32_t>(raw(stack));
    return stacks_.intern_child(callers, stacks_.intern_frame(frame), is_leaf ? leaves_root(kNullAddress) : stacks_.node(stack).path);
}

void StackBuilder::note_leaf(PathId path, Address thread) {
    if (raw(path) >= noted_in_.size()) noted_in_.resize(raw(path) + 1);
    Address& noted_in = noted_in_[raw(path)];
    if (noted_in == kNullAddress) {
        if (leaves_.size() >= kMaxLeaves) return;
        leaves_.push_back(path);
    }
    note_thread(noted_in, thread);
}

void StackBuilder::infer_leaves(std::uint32_t sightings) {
    std::erase_if(leaves_, [&](PathId path) { return stacks_.is_proved(path); });
    for (const PathId path : leaves_) stacks_.infer_callers(path, sole_callers(identity_of(path), sightings, noted_in_[raw(path)]));
}

StackBuilder::Place StackBuilder::join(StackId below, StackId above) {
    const std::uint64_t key = static_cast<std::uint64_t>(raw(below)) << 32U | raw(above);
    const auto known = joined_.find(key);
    if (known != joined_.end()) return known->second;
    if (is_full()) return {above, stacks_.node(above).path};
    to_join_.clear();
    for (StackId stack = above; stack != kRootStack; stack = stacks_.node(stack).parent) to_join_.push_back(stack);
    Place place{below, stacks_.node(below).path};
    PathId last = kRootPath;
    for (auto stack = to_join_.rbegin(); stack != to_join_.rend(); ++stack) {
        const StackTable::Node node = stacks_.node(*stack);
        if (node.path != last) place.path = extend_path(place.path, identity_of(node.path));  // else a marker
        last = node.path;
        place.stack = stacks_.intern_child(place.stack, node.frame, place.path);
    }
    if (joined_.size() >= kMaxEdges) joined_.clear();
    joined_[key] = place;
    return place;
}

StackId StackBuilder::marker(StackId parent, PathId path, std::string_view name) {
    Frame frame;
    frame.kind = FrameKind::kMarker;
    frame.name = stacks_.intern_string(name);
    return stacks_.intern_child(parent, stacks_.intern_frame(frame), path);
}

StackId StackBuilder::unproved(const RawFrame* leaf) {
    const StackId unknown = marker(kRootStack, kRootPath, "[unproved]");
    if (leaf == nullptr || leaf->code == kNullAddress) return unknown;
    const CodeIndex code = codes_.find(leaf->code);
    if (code == kNoCode) return unknown;
    const auto instruction = codes_.instruction_index(code, leaf->instruction);
    if (!instruction) return unknown;
    return stacks_.intern_child(unknown, frame_of(code, *instruction), kRootPath);
}

}  // namespace pyprof
