// SPDX-License-Identifier: Apache-2.0
#include "sample/epoch.h"

#include <algorithm>

namespace pyprof {

Epoch::Epoch(CodeCache& codes, StackTable& stacks, StackBuilder& builder)
    : codes_(codes), stacks_(stacks), builder_(builder) {}

void Epoch::mark_used(StackBuilder::Chain& chain) {
    if (chain.marked_epoch == number_) return;
    chain.marked_epoch = number_;
    for (const StackBuilder::Step& step : chain.steps) mark_used(step.code);
}

void Epoch::mark_used(CodeIndex code) {
    CodeCache::Entry& entry = codes_.entry(code);
    if (entry.used_epoch == number_) return;
    entry.used_epoch = number_;
    used_.push_back(code);
}

void Epoch::add(ThreadIndex thread, StackId stack, PathId path, std::chrono::nanoseconds weight,
                std::chrono::nanoseconds when, SampleMarks marks) {
    if (!pending_.empty()) {
        SampleRecord& last = pending_.back().record;
        // Two moments of periods that follow each other lie at most two periods apart.
        const bool follows = when - last.when <= 2 * weight && all_ticks_ <= last.tick + 1;
        if (last.thread == thread && last.stack == stack && last.marks == marks && follows) {
            ++last.samples;
            last.weight += weight;
            last.when = when;
            last.tick = all_ticks_;
            return;
        }
    }
    pending_.push_back({{stack, thread, 1, weight, when, all_ticks_, marks}, path});
}

bool Epoch::is_due(std::chrono::nanoseconds now) const {
    if (pending_.size() >= kMaxPending) return true;
    if (ticks_ > 0 && now - began_ >= kLongest) return true;
    return wanted_ticks_ < kLongestTicks && ticks_ >= wanted_ticks_;
}

bool Epoch::went_through(PathId path, const std::vector<std::uint32_t>& identities) const {
    while (path != kRootPath) {
        if (std::binary_search(identities.begin(), identities.end(), builder_.identity_of(path))) return true;
        path = stacks_.parent_path(path);
    }
    return false;
}

const Epoch::Result& Epoch::end(std::chrono::nanoseconds now, const std::uint64_t* generation) {
    result_.records.clear();
    result_.demoted = 0;
    to_verify_.clear();
    stale_.clear();
    for (const CodeIndex code : used_) {
        if (generation == nullptr || codes_.entry(code).verified_generation != *generation + 1) {
            to_verify_.push_back(code);
        }
    }
    if (!to_verify_.empty()) codes_.verify(to_verify_, stale_);
    if (generation != nullptr) {
        for (const CodeIndex code : to_verify_) codes_.entry(code).verified_generation = *generation + 1;
    }
    std::vector<std::uint32_t> identities;
    for (const CodeIndex code : stale_) identities.push_back(codes_.entry(code).identity);
    std::sort(identities.begin(), identities.end());

    for (Pending& pending : pending_) {
        if (!identities.empty() && went_through(pending.path, identities)) {
            pending.record.stack = builder_.unproved(nullptr);
            result_.demoted += pending.record.samples;
        }
        result_.records.push_back(pending.record);
    }
    result_.has_stale = !stale_.empty();
    wanted_ticks_ = stale_.empty() ? std::min(wanted_ticks_ * 2, kLongestTicks) : 1;
    pending_.clear();
    used_.clear();
    ticks_ = 0;
    began_ = now;
    ++number_;
    return result_;
}

}  // namespace pyprof
