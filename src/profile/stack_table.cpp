// SPDX-License-Identifier: Apache-2.0
//
// The tables of strings, frames, stacks and paths. The maps from content to id belong to the writer
// alone; readers touch only the chunked lists. Nothing is ever removed: an id stays valid and keeps its
// meaning as long as the table lives.
#include <pyprof/profile.h>

#include <tsl/robin_map.h>

#include <atomic>

#include "profile/chunked_list.h"
#include "profile/hash.h"
#include "profile/utf8.h"

namespace pyprof {
namespace {

struct NodeHash {
    std::size_t operator()(const StackTable::Node& node) const {
        return mix(pair(raw(node.parent), raw(node.frame)) + mix(raw(node.path)));
    }
};

struct NodeEqual {
    bool operator()(const StackTable::Node& a, const StackTable::Node& b) const {
        return a.parent == b.parent && a.frame == b.frame && a.path == b.path;
    }
};

constexpr std::uint32_t kNotInferred = ~0U;

struct Path {
    explicit Path(PathId parent_path) : parent(parent_path) {}
    PathId parent;
    std::atomic<bool> is_proved{false};  // nothing else is published through it: relaxed is enough
    std::atomic<std::uint32_t> callers{kNotInferred};
};

}  // namespace

struct StackTable::Tables {
    ChunkedList<std::string> strings;
    ChunkedList<Frame> frames;
    ChunkedList<Node> nodes;
    ChunkedList<Path> paths;

    tsl::robin_map<std::string_view, StringId> string_ids;  // keys point into `strings`
    tsl::robin_map<Frame, FrameId, FrameHash> frame_ids;
    tsl::robin_map<Node, StackId, NodeHash, NodeEqual> node_ids;
    tsl::robin_map<std::uint64_t, PathId, MixHash> path_ids;  // parent and code
};

StackTable::StackTable() : tables_(std::make_unique<Tables>()) {
    tables_->strings.append();
    tables_->string_ids.emplace(tables_->strings[0], kNoString);
    tables_->nodes.append();
    tables_->paths.append(kRootPath);
    tables_->paths.at(0).is_proved.store(true, std::memory_order_relaxed);
}

StackTable::~StackTable() = default;

StringId StackTable::intern_string(std::string_view text) {
    std::string repaired;
    if (!is_valid_utf8(text)) {
        repaired = to_valid_utf8(text);
        text = repaired;
    }
    const auto known = tables_->string_ids.find(text);
    if (known != tables_->string_ids.end()) return known->second;
    const StringId id{tables_->strings.append(text)};
    tables_->string_ids.emplace(tables_->strings[raw(id)], id);
    return id;
}

FrameId StackTable::intern_frame(const Frame& frame) {
    const auto known = tables_->frame_ids.find(frame);
    if (known != tables_->frame_ids.end()) return known->second;
    const FrameId id{tables_->frames.append(frame)};
    tables_->frame_ids.emplace(frame, id);
    return id;
}

StackId StackTable::intern_child(StackId parent, FrameId frame, PathId path) {
    const Node node{parent, frame, path};
    const auto known = tables_->node_ids.find(node);
    if (known != tables_->node_ids.end()) return known->second;
    const StackId id{tables_->nodes.append(node)};
    tables_->node_ids.emplace(node, id);
    return id;
}

PathId StackTable::intern_path(PathId parent, std::uint32_t code) {
    const std::uint64_t key = pair(raw(parent), code);
    const auto known = tables_->path_ids.find(key);
    if (known != tables_->path_ids.end()) return known->second;
    const PathId id{tables_->paths.append(parent)};
    tables_->path_ids.emplace(key, id);
    return id;
}

std::optional<PathId> StackTable::find_path(PathId parent, std::uint32_t code) const {
    const auto known = tables_->path_ids.find(pair(raw(parent), code));
    if (known == tables_->path_ids.end()) return std::nullopt;
    return known->second;
}

void StackTable::prove(PathId path) {
    // A proved path has proved ancestors, so the walk ends at the first of them; the root is proved.
    while (!is_proved(path)) {
        tables_->paths.at(raw(path)).is_proved.store(true, std::memory_order_relaxed);
        path = parent_path(path);
    }
}

void StackTable::disprove(PathId path) {
    tables_->paths.at(raw(path)).is_proved.store(false, std::memory_order_relaxed);
}

std::string_view StackTable::string(StringId id) const {
    return tables_->strings[raw(id)];
}
const Frame& StackTable::frame(FrameId id) const {
    return tables_->frames[raw(id)];
}
const StackTable::Node& StackTable::node(StackId id) const {
    return tables_->nodes[raw(id)];
}
PathId StackTable::parent_path(PathId path) const {
    return tables_->paths[raw(path)].parent;
}

bool StackTable::continues(PathId path, PathId prefix) const {
    while (path != prefix && path != kRootPath) path = parent_path(path);
    return path == prefix;
}

StackTable::Shown StackTable::shown(StackId stack) const {
    const PathId path = node(stack).path;
    Shown shown{stack, is_proved(path), kRootStack, false};
    if (stack != kRootStack && frame(node(stack).frame).kind == FrameKind::kUnproved) {
        shown.callers = node(stack).parent;
        shown.stack = StackId{static_cast<std::uint32_t>(frame(node(stack).frame).line)};
    }
    if (shown.is_proved) return shown;
    const std::optional<StackId> inferred = inferred_callers(path);
    if (inferred && continues(node(*inferred).path, node(shown.callers).path)) {
        shown.callers = *inferred;
        shown.are_inferred = true;
    }
    return shown;
}

void StackTable::infer_callers(PathId path, std::optional<StackId> callers) {
    // A reader that sees the id must see its node.
    tables_->paths.at(raw(path)).callers.store(callers ? raw(*callers) : kNotInferred, std::memory_order_release);
}

std::optional<StackId> StackTable::inferred_callers(PathId path) const {
    const std::uint32_t callers = tables_->paths[raw(path)].callers.load(std::memory_order_acquire);
    if (callers == kNotInferred) return std::nullopt;
    return StackId{callers};
}

bool StackTable::is_proved(PathId path) const {
    return tables_->paths[raw(path)].is_proved.load(std::memory_order_relaxed);
}

std::size_t StackTable::stack_count() const {
    return tables_->nodes.size();
}
std::size_t StackTable::path_count() const {
    return tables_->paths.size();
}
std::size_t StackTable::frame_count() const {
    return tables_->frames.size();
}

}  // namespace pyprof
