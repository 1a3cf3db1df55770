// SPDX-License-Identifier: Apache-2.0
#include "sample/async_stacks.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::uint32_t kTaskPaths = 0;  // of StackBuilder::separate_root

}  // namespace

std::size_t AsyncStacks::EdgeHash::operator()(const EdgeKey& key) const {
    std::uint64_t mixed = (static_cast<std::uint64_t>(key.stack) << 32 | key.serial) * 0x9E3779B97F4A7C15ULL;
    mixed ^= (static_cast<std::uint64_t>(key.path) << 32 | static_cast<std::uint32_t>(key.instruction)) *
             0xC2B2AE3D27D4EB4FULL;
    return static_cast<std::size_t>(mixed ^ (mixed >> 32U));
}

AsyncStacks::AsyncStacks(CodeCache& codes, StackTable& stacks, StackBuilder& builder)
    : codes_(codes), stacks_(stacks), builder_(builder), separate_(builder.separate_root(kTaskPaths)) {}

AsyncStacks::Place AsyncStacks::marker(Place place, std::string_view text) {
    if (builder_.is_full()) return place;
    return {builder_.marker(place.stack, separate_, text), place.names};
}

AsyncStacks::Place AsyncStacks::add_plain(Place place, FrameId frame) {
    if (builder_.is_full()) return place;
    return {stacks_.intern_child(place.stack, frame, separate_), place.names};
}

AsyncStacks::Place AsyncStacks::add_frame(Place place, const StackBuilder::Step& step, PathId proof) {
    const CodeCache::Entry& entry = codes_.entry(step.code);
    if (entry.is_hidden) return place;
    const EdgeKey key{raw(place.stack), entry.serial, raw(proof), step.instruction};
    const auto known = edges_.find(key);
    // One node can be come to by paths of several codes that are called alike.
    if (known != edges_.end() && stacks_.parent_path(known->second.names) == place.names) return known->second;
    if (builder_.is_full()) return place;
    const Place next{stacks_.intern_child(place.stack, builder_.frame_of(step.code, step.instruction), proof),
                     builder_.child_path(place.names, step.code)};
    if (edges_.size() >= kMaxEdges) edges_.clear();
    edges_[key] = next;
    return next;
}

AsyncStacks::Place AsyncStacks::add_coroutines(Place place, const StackBuilder::Chain& chain, std::size_t begin, std::size_t end) {
    end = std::min(end, chain.steps.size());
    for (std::size_t i = begin; i < end; ++i) place = add_frame(place, chain.steps[i], separate_);
    return place;
}

AsyncStacks::Place AsyncStacks::add_steps(Place place, const StackBuilder::Chain& chain, std::size_t begin,
                                          std::size_t end) {
    end = std::min(end, chain.steps.size());
    for (std::size_t i = begin; i < end; ++i) place = add_frame(place, chain.steps[i], chain.steps[i].path);
    return place;
}

PathId AsyncStacks::names_of(PathId names, const StackBuilder::Chain& chain, std::size_t begin, std::size_t end) {
    end = std::min(end, chain.steps.size());
    for (std::size_t i = begin; i < end; ++i) {
        if (!codes_.entry(chain.steps[i].code).is_hidden) names = builder_.child_path(names, chain.steps[i].code);
    }
    return names;
}

}  // namespace pyprof
