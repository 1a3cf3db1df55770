// SPDX-License-Identifier: Apache-2.0
#include "python/task_holders.h"

#include "python/frame_locals.h"
#include "python/objects.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::size_t kMostItems = 256;  // of one list, set, tuple or dict

std::vector<Address> items_of(Memory& memory, const Layout& layout, Address object, ObjectKind kind) {
    std::vector<Address> items;
    if (kind == ObjectKind::kTuple) return read_tuple(memory, layout, object, kMostItems).value_or(items);
    if (kind == ObjectKind::kSet) return read_set(memory, layout, object, kMostItems).value_or(items);
    if (kind == ObjectKind::kDict) {
        if (const auto entries = read_dict(memory, layout, object, kMostItems)) {
            for (const DictEntry& entry : *entries) items.insert(items.end(), {entry.key, entry.value});
        }
        return items;
    }
    if (kind == ObjectKind::kCell) {
        items.push_back(read_pointer(memory, object + layout.object.header_size).value_or(kNullAddress));
        return items;
    }
    if (kind == ObjectKind::kList) return read_list(memory, layout, object, kMostItems).value_or(items);
    return items;
}

}  // namespace

std::uint32_t TaskHolders::depth_of(Memory& memory, std::span<const RawFrame> frames, Address object) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
        read_locals(memory, *layout_, frames[i], locals_);
        if (std::find(locals_.begin(), locals_.end(), object) == locals_.end()) continue;
        return static_cast<std::uint32_t>(frames.size() - i);
    }
    return 1;
}

void TaskHolders::note(std::span<const Entry> tasks, Address object, TaskIndex holder, std::uint32_t depth) {
    const auto orphan = orphans_.find(raw(object));
    if (orphan == orphans_.end() || orphan->second == holder) return;
    const std::uint64_t own = tasks[orphan->second].number;
    if (own != 0 && tasks[holder].number > own) return;  // made later than what it would have made
    hits_.push_back({orphan->second, holder, depth});
}

void TaskHolders::search(Memory& memory, std::span<const Entry> tasks, TaskIndex holder) {
    const Entry& task = tasks[holder];
    if (!task.is_suspended) return;
    for (std::size_t i = 0; i < task.frames.size(); ++i) {
        const auto depth = static_cast<std::uint32_t>(task.frames.size() - i);
        read_locals(memory, *layout_, task.frames[i], locals_);
        for (const Address object : locals_) {
            if (!can_be_object(object)) continue;
            note(tasks, object, holder, depth);
            for (const Address item : items_of(memory, *layout_, object, kinds_->kind_of(memory, object))) {
                note(tasks, item, holder, depth);
            }
        }
    }
}

// Of several frames of one holder the innermost; of several holders none: who of them made the task can't be told.
void TaskHolders::keep_sole_holders(std::vector<TaskEdge>& edges) {
    std::sort(hits_.begin(), hits_.end(), [](const Hit& a, const Hit& b) {
        return a.orphan != b.orphan ? a.orphan < b.orphan : a.depth > b.depth;
    });
    for (std::size_t i = 0, end = 0; i < hits_.size(); i = end) {
        bool is_sole = true;
        for (end = i; end < hits_.size() && hits_[end].orphan == hits_[i].orphan; ++end) is_sole &= hits_[end].holder == hits_[i].holder;
        if (is_sole) edges.push_back({hits_[i].orphan, hits_[i].holder, EdgeSource::kHeld, false, hits_[i].depth});
    }
}

void TaskHolders::find(Memory& memory, std::span<const Entry> tasks, std::vector<TaskEdge>& edges) {
    orphans_.clear();
    hits_.clear();
    for (TaskIndex i = 0; i < tasks.size(); ++i) {
        if (tasks[i].is_orphan) orphans_[raw(tasks[i].task)] = i;
    }
    if (orphans_.empty()) return;
    for (TaskIndex i = 0; i < tasks.size(); ++i) search(memory, tasks, i);
    keep_sole_holders(edges);
}

}  // namespace pyprof
