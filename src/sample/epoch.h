// SPDX-License-Identifier: Apache-2.0
//
// Samples wait here until the names that they went through are known to have been right. An epoch is a
// short run of samples; at its end the stamps of all code objects used in it are compared with the
// target once more. What held is committed; a sample through code that changed meanwhile keeps its
// weight under [unproved] and loses its names. After a change, epochs are one tick long, and double
// while all is well: a target that makes and drops code all the time is checked at every sample. None is
// longer than 50 ms, since what still waits when the target ends can't be checked any more: then code that is older than
// 0.8 s is believed, and all code where no name was found stale for as long.
//
// A path that was proved meanwhile is what the names said: where one of them was not right, the proof is taken back.
//
// Code that is new to us is checked more often, at the latest when a sixteenth of its age has passed: what
// runs once, as a module's body does, is freed soon after, and its samples must not lose their names by it.
#pragma once

#include <pyprof/profile.h>

#include "sample/stack_builder.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace pyprof {

// What the thread was at the moment of a sample.
struct SampleMarks {
    bool is_running = false;  // on a processor or ready to run
    bool holds_gil = false;
    friend bool operator==(const SampleMarks&, const SampleMarks&) = default;
};

// One run of equal samples of a thread, without a hole; or a crowd.
struct SampleRecord {
    StackId stack{};
    ThreadIndex thread = 0;
    std::uint32_t samples = 0;
    std::chrono::nanoseconds weight{0};
    std::chrono::nanoseconds when{0};  // of the last, since the start
    std::uint64_t tick = 0;            // of the last, counted from the first tick on; a run of a thread has one sample a tick
    SampleMarks marks;
    bool is_crowd = false;  // samples of one moment (tasks that wait alike), no run
};

class Epoch {
public:
    Epoch(CodeCache& codes, StackTable& stacks, StackBuilder& builder);

    // Notes that a sample or a proof went through all codes of `chain`.
    void mark_used(StackBuilder::Chain& chain);
    void mark_used(CodeIndex code);
    // Frames are copied now: those of this tick's samples, or others for a proof.
    enum class CopyFor : bool { kProof, kSamples };
    void note_copy(CopyFor what);
    // The name of `code` was right at the copy, though it may be freed by the end of the tick.
    void note_sure(CodeIndex code);
    [[nodiscard]] bool is_sure(CodeIndex code) const {
        const CodeCache::Entry& entry = codes_.entry(code);
        return entry.is_alive && entry.sure_copy == copy_;
    }
    [[nodiscard]] bool is_sure(const StackBuilder::Chain& chain) const;
    // What was proved since the last call: by names that were all sure, or to be taken back should one of them turn out
    // to be stale.
    void note_proofs(bool are_sure);
    // Whether code was replaced a short while ago, so that more of it may be any time.
    [[nodiscard]] bool is_wary() const { return wanted_ticks_ < kLongestTicks; }
    // Something else stands there by now, which was found before a sample of this tick went through it.
    void drop_replaced(CodeIndex code);
    // `has_sure_names`: all of them were right at its copy, whatever has become of them. `is_truncated`: it counts as having
    // lost its callers already.
    void add(ThreadIndex thread, StackId stack, PathId path, std::chrono::nanoseconds weight,
             std::chrono::nanoseconds when, SampleMarks marks = {}, bool has_sure_names = false, bool is_truncated = false);
    // Several equal stacks of one moment (tasks that wait alike), which weigh `weight` together: a record of its own.
    void add_many(ThreadIndex thread, StackId stack, PathId path, std::uint32_t samples, std::chrono::nanoseconds weight,
                  std::chrono::nanoseconds when);
    // Ends a tick, and checks what is young. True when an entry was dropped: then the epoch must end now.
    bool tick(std::chrono::nanoseconds now);
    // True when it is time to end the epoch.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const;

    // `generation`: the target's code_object_generation now; without one (up to 3.13) every used stamp
    // is compared. Returns the records to commit; valid until the next call.
    struct Result {
        std::vector<SampleRecord> records;
        std::uint64_t demoted = 0;  // samples whose names no longer held
        bool has_stale = false;     // code entries were dropped: who holds one must let go of it
    };
    const Result& end(std::chrono::nanoseconds now, const std::uint64_t* generation);

private:
    struct Pending {
        SampleRecord record;
        PathId path;
        std::size_t goes_on_from = 0;  // one plus the index of its thread's last, whose run it is but for a check of names
        bool is_run = true;            // of one sample a tick
        bool has_sure_names = false;
        bool is_truncated = false;
    };
    struct Proof {
        PathId path;
        std::uint64_t tick;
    };
    struct Stale {
        std::uint32_t identity;
        std::uint64_t good_until;      // the number of ticks in whose samples it was right
        std::uint64_t verified_until;  // the number of ticks that its stamp was seen to outlive
    };
    std::size_t& last_of(ThreadIndex thread);
    void confirm(std::span<const CodeIndex> codes, std::uint64_t ticks);
    void judge_unasked(std::span<const CodeIndex> codes);
    // Whether a code on this path is not known to have been itself at this tick.
    [[nodiscard]] bool has_lost_names(PathId path, std::uint64_t tick, std::uint64_t Stale::*until) const;
    void take_back_proofs();

    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(50);
    static constexpr std::uint32_t kLongestTicks = 32;
    static constexpr std::size_t kMaxPending = 1U << 11;  // what is written again and again stays near the processor
    static constexpr std::int64_t kChecksPerAge = 16;
    static constexpr std::chrono::nanoseconds kYoung = kLongest * kChecksPerAge;

    CodeCache& codes_;
    StackTable& stacks_;
    StackBuilder& builder_;
    std::vector<Pending> pending_;          // by the beginning of their runs
    std::vector<std::size_t> last_of_;      // by thread: one plus the index of its last
    std::vector<std::size_t> record_of_;    // of each, in the result
    std::vector<Proof> proofs_;
    std::vector<PathId> new_proofs_;
    std::vector<CodeIndex> used_;
    std::vector<CodeIndex> young_;  // of them
    std::vector<CodeIndex> to_verify_;
    std::vector<CodeIndex> stale_;
    std::chrono::nanoseconds last_stale_{-kYoung};  // when a name was found to hold no more
    std::vector<Stale> lost_;  // by identity
    std::uint64_t copy_ = 0;  // number of the copy that is looked at
    CopyFor copy_for_ = CopyFor::kSamples;
    std::size_t open_ = 0;     // records before this one take no more samples
    std::chrono::nanoseconds now_{0};
    Result result_;
    std::uint32_t number_ = 1;
    std::uint32_t ticks_ = 0;
    std::uint64_t all_ticks_ = 0;
    std::uint32_t wanted_ticks_ = 1;
    std::chrono::nanoseconds began_{0};
};

}  // namespace pyprof
