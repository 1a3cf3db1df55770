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
    if (!entry.is_dated || now_ - entry.first_used < kYoung) young_.push_back(code);
}

void Epoch::add(ThreadIndex thread, StackId stack, PathId path, std::chrono::nanoseconds weight,
                std::chrono::nanoseconds when, SampleMarks marks, bool has_sure_names, bool is_truncated) {
    std::size_t& last = last_of(thread);
    std::size_t goes_on_from = 0;
    if (last != 0) {
        Pending& before = pending_[last - 1];
        SampleRecord& run = before.record;
        // Two moments of periods that follow each other lie at most two periods apart.
        const bool follows = when - run.when <= 2 * weight && all_ticks_ <= run.tick + 1;
        if (follows && before.is_run && run.stack == stack && run.marks == marks) goes_on_from = last;
        if (goes_on_from > open_ && before.has_sure_names == has_sure_names) {
            ++run.samples;
            run.weight += weight;
            run.when = when;
            run.tick = all_ticks_;
            return;
        }
    }
    pending_.push_back({{stack, thread, 1, weight, when, all_ticks_, marks}, path, goes_on_from, true, has_sure_names, is_truncated});
    last = pending_.size();
}

void Epoch::add_many(ThreadIndex thread, StackId stack, PathId path, std::uint32_t samples, std::chrono::nanoseconds weight,
                     std::chrono::nanoseconds when) {
    pending_.push_back({{stack, thread, samples, weight, when, all_ticks_, {}, true}, path, 0, false, false, false});
    last_of(thread) = pending_.size();
}

std::size_t& Epoch::last_of(ThreadIndex thread) {
    if (thread >= last_of_.size()) last_of_.resize(thread + 1, 0);
    return last_of_[thread];
}

bool Epoch::is_due(std::chrono::nanoseconds now) const {
    if (pending_.size() >= kMaxPending) return true;
    if (ticks_ > 0 && now - began_ >= kLongest) return true;
    return wanted_ticks_ < kLongestTicks && ticks_ >= wanted_ticks_;
}

// Compares the stamps of these with the target: what holds was right for the samples of all ticks until then.
void Epoch::confirm(std::span<const CodeIndex> codes, std::uint64_t ticks) {
    if (!codes_.verify(codes, stale_)) return judge_unasked(codes);
    for (const CodeIndex code : codes) {
        CodeCache::Entry& entry = codes_.entry(code);
        if (!entry.is_alive) continue;
        entry.checked = now_;
        entry.good_until = entry.verified_until = ticks;
    }
}

// The target has ended. Code that was freed and made anew since the last check would bear the old name. That is likely of young
// code alone, and where code was replaced a short while ago.
void Epoch::judge_unasked(std::span<const CodeIndex> codes) {
    if (now_ - last_stale_ >= kYoung) return;
    for (const CodeIndex code : codes) {
        const CodeCache::Entry& entry = codes_.entry(code);
        if (!entry.is_alive || (entry.is_dated && now_ - entry.first_used >= kYoung)) continue;
        codes_.drop(code);
        stale_.push_back(code);
    }
}

void Epoch::note_copy(CopyFor what) {
    ++copy_;
    copy_for_ = what;
}

void Epoch::note_sure(CodeIndex code) {
    CodeCache::Entry& entry = codes_.entry(code);
    entry.sure_copy = copy_;
    if (copy_for_ == CopyFor::kSamples) entry.good_until = all_ticks_ + 1;
}

void Epoch::drop_replaced(CodeIndex code) {
    CodeCache::Entry& entry = codes_.entry(code);
    if (!entry.is_alive) return;  // another thread's chain told already
    if (entry.used_epoch != number_) entry.good_until = all_ticks_ + 1;  // no sample that waits went through it
    codes_.drop(code);
    stale_.push_back(code);
}

bool Epoch::tick(std::chrono::nanoseconds now) {
    now_ = now;
    ++ticks_;
    to_verify_.clear();
    for (const CodeIndex code : young_) {
        CodeCache::Entry& entry = codes_.entry(code);
        if (!entry.is_dated) {
            entry.is_dated = true;
            entry.first_used = entry.checked = now;
        }
        if ((now - entry.checked) * kChecksPerAge >= now - entry.first_used) to_verify_.push_back(code);
    }
    if (!to_verify_.empty()) {
        confirm(to_verify_, all_ticks_ + 1);
        open_ = pending_.size();  // a record's samples lie on one side of each check
    }
    note_proofs(false);
    ++all_ticks_;
    return !stale_.empty();
}

bool Epoch::is_sure(const StackBuilder::Chain& chain) const {
    return std::all_of(chain.steps.begin(), chain.steps.end(), [&](const StackBuilder::Step& step) { return is_sure(step.code); });
}

void Epoch::note_proofs(bool are_sure) {
    new_proofs_.clear();
    builder_.take_proofs(new_proofs_);
    if (are_sure) return;
    for (const PathId path : new_proofs_) proofs_.push_back({path, all_ticks_});
}

// What continues such a path was proved later than it, through the same name: it goes, too.
void Epoch::take_back_proofs() {
    for (const Proof& proof : proofs_) {
        if (has_lost_names(proof.path, proof.tick, &Stale::verified_until)) builder_.disprove(proof.path);
    }
}

bool Epoch::has_lost_names(PathId path, std::uint64_t tick, std::uint64_t Stale::*until) const {
    for (; path != kRootPath; path = stacks_.parent_path(path)) {
        const std::uint32_t identity = builder_.identity_of(path);
        auto lost = std::lower_bound(lost_.begin(), lost_.end(), identity,
                                     [](const Stale& stale, std::uint32_t wanted) { return stale.identity < wanted; });
        for (; lost != lost_.end() && lost->identity == identity; ++lost) {
            if (tick >= (*lost).*until) return true;
        }
    }
    return false;
}

const Epoch::Result& Epoch::end(std::chrono::nanoseconds now, const std::uint64_t* generation) {
    result_.records.clear();
    result_.demoted = 0;
    to_verify_.clear();
    for (const CodeIndex code : used_) {
        if (!codes_.entry(code).is_alive) continue;  // found stale by a check within the epoch
        if (generation == nullptr || codes_.entry(code).verified_generation != *generation + 1) {
            to_verify_.push_back(code);
        }
    }
    if (!to_verify_.empty()) confirm(to_verify_, all_ticks_);
    if (generation != nullptr) {
        for (const CodeIndex code : to_verify_) codes_.entry(code).verified_generation = *generation + 1;
    }
    lost_.clear();
    for (const CodeIndex code : stale_) lost_.push_back({codes_.entry(code).identity, codes_.entry(code).good_until, codes_.entry(code).verified_until});
    std::sort(lost_.begin(), lost_.end(), [](const Stale& a, const Stale& b) { return a.identity < b.identity; });

    note_proofs(false);
    if (!lost_.empty()) take_back_proofs();
    proofs_.clear();
    record_of_.clear();
    for (Pending& pending : pending_) {
        if (!lost_.empty() && !pending.has_sure_names && has_lost_names(pending.path, pending.record.tick, &Stale::good_until)) {
            pending.record.stack = builder_.unproved(nullptr);
            if (!pending.is_truncated) result_.demoted += pending.record.samples;
        }
        if (pending.goes_on_from != 0) {
            const std::size_t at = record_of_[pending.goes_on_from - 1];
            SampleRecord& last = result_.records[at];
            if (last.stack == pending.record.stack) {
                last.samples += pending.record.samples;
                last.weight += pending.record.weight;
                last.when = pending.record.when;
                last.tick = pending.record.tick;
                record_of_.push_back(at);
                continue;
            }
        }
        record_of_.push_back(result_.records.size());
        result_.records.push_back(pending.record);
    }
    for (const Pending& pending : pending_) last_of_[pending.record.thread] = 0;
    result_.has_stale = !stale_.empty();
    if (result_.has_stale) last_stale_ = now;
    wanted_ticks_ = stale_.empty() ? std::min(wanted_ticks_ * 2, kLongestTicks) : 1;
    stale_.clear();
    pending_.clear();
    open_ = 0;
    used_.clear();
    young_.clear();
    ticks_ = 0;
    began_ = now;
    ++number_;
    return result_;
}

}  // namespace pyprof
