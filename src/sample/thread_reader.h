// SPDX-License-Identifier: Apache-2.0
//
// The read plan of one thread: the ranges that its last samples needed, so that the next sample is one
// vectored read. Frames of 3.11 on are read as the data stack chunk in which they stand; what stands
// elsewhere (generators, frames up to 3.10) by its address. What the plan missed is read at once and
// joins it. The reader copies and walks; it judges nothing.
//
// The frames may be copied twice: what is equal in both copies was there between them (sample/proof.h). A sample reads the
// pointer to its leaf before all frames: to copy what the target is about to write to takes it away from the target's
// processor, which works on more slowly for a microsecond, and would be met there more often.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include "python/frames.h"
#include "sample/data_stack.h"

#include <tsl/robin_map.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pyprof {

// Fills what can be read of what one or several readers plan; `filled` tells which ranges were. process_vm_readv stops at
// the first range that it can't read: it goes on behind it, so that one freed frame costs no other thread its sample.
// Of ranges in one pile none is read that is as high as one that could not be read, or higher: the chunks of a stack that
// has shrunk are gone from some height on. Where a pointer to the highest one that is left was read with them, it says from
// which; it and what was read since are read anew then, so that the frames follow their pointer as closely as ever, and those
// above come once more behind all else: the stack may be growing again. `levels` may be shorter than `ranges`.
struct ReadLevel {
    static constexpr std::size_t kNoPointer = SIZE_MAX;
    Address pile{};  // null: in none
    std::size_t height = 0;
    std::size_t pointer_range = kNoPointer;  // an earlier one of the ranges
    std::size_t pointer_offset = 0;          // in it
};
// What `filled` says of a range; kFilledLast: read behind ranges that come after it.
enum Filled : std::uint8_t { kNotFilled, kFilled, kFilledLast };
void read_all(Memory& memory, std::span<const ReadRange> ranges, std::vector<std::uint8_t>& filled,
              std::span<const ReadLevel> levels = {});

// A copy of the used part of a thread's C stack, of the moment of its Python frames: from 3.12 on frames of entry stand
// there, in 3.11 and 3.12 cframes.
struct CStackBytes {
    Address begin{};
    std::span<const std::byte> bytes;
};

class ThreadReader {
public:
    ThreadReader(const Layout& layout, const FrameShape& shape, Address thread_state);

    enum class Copies : std::uint8_t {
        kOne,     // the pointer to the leaf, then the frames
        kTwo,     // ... and all of it once more
        kAround,  // frames, pointer, frames: proves most, and is no fair sample
    };
    // Appends this thread's ranges; their buffers stay valid until the next call. `with_c_stack`: take() will be given the
    // thread's C stack, and what lies there needs no range. With `ahead` the plan is for a stack that may have grown or
    // shrunk by whole chunks since: what is seldom there is not in `ranges` but ahead, to be read behind all else.
    struct Ahead {
        std::vector<ReadRange> ranges;
        std::vector<ReadLevel> levels;          // of those
        std::vector<ReadLevel> planned_levels;  // of the caller's ranges, as far as there are any
        void clear() {
            ranges.clear();
            levels.clear();
            planned_levels.clear();
        }
    };
    void plan(std::vector<ReadRange>& ranges, Copies copies, bool with_c_stack = false, Ahead* ahead = nullptr);

    enum class Status : std::uint8_t {
        kOk,       // it has frames; what could not be read of them is in the walk's end
        kNoFrame,  // the thread has no Python frame now
        kGone,     // the thread state can't be read or is another's by now
    };
    // After the read: `filled` tells for each of this thread's ranges whether it was read, those ahead last. Reads what
    // the plan missed and walks the copies. kStands: the thread does not run from before the read until take() returns.
    enum class Motion : bool { kMoves, kStands };
    Status take(Memory& memory, std::span<const std::uint8_t> filled, const CStackBytes& c_stack = {}, Motion motion = Motion::kMoves);

    // Of two copies: whether the thread's second reading may stand for it, and the going over to it. From then on all is as
    // if it had been planned kAround, a microsecond later (but that the first copy was made leaf first).
    [[nodiscard]] bool has_second_moment() const { return copies_ == Copies::kTwo && second_.has_thread; }
    Status take_second_moment(Memory& memory);
    // The pointer that was read between two copies; nothing where there is none.
    [[nodiscard]] std::optional<Address> second_pointer() const;
    // Whether it leads to the leaf that dates them.
    [[nodiscard]] bool is_leaf_between() const { return copies_ == Copies::kAround || second_pointer() == leaf_; }
    // 3.11 and 3.12: the pointer was not in the plan, and is younger than all copies.
    [[nodiscard]] bool is_pointer_late() const { return is_pointer_late_; }

    // Of the copy right behind the pointer, which dates it; and of the other one, from the same leaf (kUnreadable where
    // there is none).
    [[nodiscard]] const Walk& walk() const { return walk_; }
    [[nodiscard]] const Walk& walk_other() const { return other_walk_; }
    [[nodiscard]] bool is_other_earlier() const { return copies_ == Copies::kAround; }
    // The frame at that address as either copy holds it, if its caller there is `caller` (null for the root), entry
    // frames skipped; nothing where that copy lacks it or says otherwise.
    [[nodiscard]] std::optional<RawFrame> frame_in(Address address, Address caller, bool other);
    // The copy of the frame at `address`, FrameShape::begin() applied; nullptr when that copy lacks it.
    [[nodiscard]] const std::byte* copy_of(Address address, bool other);
    // Whether the other copy holds at `address` the frame of a generator that had ended by then; where ended ones keep their
    // code (up to 3.13).
    [[nodiscard]] bool had_ended(Address address) const { return generator_state(address, true).value_or(0) > 0; }
    [[nodiscard]] Address leaf() const { return leaf_; }  // the pointer that dates the sample
    // 3.11 and 3.12: that of the loop which runs the leaf.
    [[nodiscard]] Address leaf_cframe() const { return leaf_cframe_; }
    // Where the lowest frame of the current chunk stands. A thread's first chunk keeps its first word free
    // (Python/pystate.c, push_chunk).
    [[nodiscard]] Address chunk_begin() const {
        if (data_stack_.in_use() == 0) return kNullAddress;
        return data_stack_[data_stack_.in_use() - 1].begin + (data_stack_.in_use() == 1 ? 8U : 0U);
    }
    [[nodiscard]] bool has_several_chunks() const { return data_stack_.in_use() > 1; }
    // Whether the lowest frame of a chunk can stand there.
    [[nodiscard]] bool is_chunk_start(Address address) const;
    [[nodiscard]] const WalkLimits& limits() const { return limits_; }
    [[nodiscard]] const std::byte* thread_bytes() const { return pointers_.thread.data(); }
    // Has the thread state copied up to `end` at least.
    void cover_thread(std::uint64_t end) {
        if (end <= pointers_.thread.size()) return;
        for (Pointers* pointers : {&pointers_, &second_}) pointers->thread.resize(end);
    }
    // A word of it as it stood when the pointer to the leaf was read.
    [[nodiscard]] std::optional<std::uint64_t> thread_word(std::uint64_t offset) const {
        if (!pointers_.has_thread || offset + 8 > pointers_.thread.size()) return std::nullopt;
        return load<std::uint64_t>(pointers_.thread.data(), offset);
    }
    [[nodiscard]] std::uint64_t misses() const { return misses_; }  // frames that the plan did not hold
    [[nodiscard]] Address address() const { return thread_state_; }
    // What must stay as it was for the state to be this thread's.
    void set_identity(Address interpreter, std::uint64_t pthread) {
        interpreter_ = interpreter;
        pthread_ = pthread;
    }

private:
    // Of the frames of one thread: what kMaxSteps of the usual size take.
    static constexpr std::uint64_t kMaxCopyBytes = 64U << 20;
    // Frames off the data stack that are not known yet: so many a sample are read one by one. More are learnt the next time.
    static constexpr std::size_t kMaxSingleMisses = 256;
    static constexpr std::size_t kMaxCandidates = 256;

    struct Region {
        Address begin{};
        Address end{};
        std::size_t offset = 0;  // in either arena
        bool is_read = false;    // in the copy behind the pointer
        bool is_in_other = false;
        bool is_late = false;  // that behind the pointer came after the other one
    };
    struct SingleFrame {  // off the data stack
        Address address{};
        std::uint64_t last_used = 0;  // sample number
        float uses = 0;               // each worth less with every sample since
    };
    struct Planned {
        enum class What : std::uint8_t { kOther, kThread, kCells, kFrames, kSecondThread, kSecondCells, kAhead } what;
        std::size_t region = 0;
    };

    void plan_regions(bool looks_ahead);
    void note_filled(std::span<const std::uint8_t> filled);
    void forget_unreadable();
    [[nodiscard]] bool is_same_thread() const;
    Status take_copies(Memory& memory, std::span<const std::uint8_t> filled);
    Status walk_copies(Memory& memory);
    void find_first_gone();
    void plan_cells();
    void plan_pointers(std::vector<ReadRange>& ranges, bool second, bool with_c_stack);
    struct Pointers;
    [[nodiscard]] Address thread_pointer(const Pointers& pointers, Offset offset) const;
    [[nodiscard]] std::optional<Address> planned_leaf(const Pointers& pointers) const;  // nothing: it was not read
    void learn_cframe(Address cframe);
    [[nodiscard]] bool may_be_left_over() const;
    std::optional<Address> leaf_of_previous_cframe(Memory& memory);
    std::optional<std::uint64_t> word_that_stands(Memory& memory, Address at) const;
    std::optional<Address> find_leaf(Memory& memory);  // nothing: it can't be read
    void follow_chunks(Memory& memory);
    [[nodiscard]] std::size_t region_of(std::size_t chunk) const;
    [[nodiscard]] const std::byte* copied_header(std::size_t chunk) const;
    [[nodiscard]] std::optional<std::size_t> first_broken_link(std::size_t chunk) const;
    void read_extra(Memory& memory, std::size_t first);
    void add_extra_chunk(Address begin, Address end);
    const std::byte* read_chunk(Memory& memory, Address address);
    void read_untried_chunks(Memory& memory, std::size_t first);
    void notice_newer_chunk(Memory& memory, Address leaf);
    void read_missing_chunks(Memory& memory, std::size_t chunk, Address address);
    [[nodiscard]] bool was_gone(std::size_t chunk) const;
    [[nodiscard]] std::optional<std::size_t> unread_chunk() const;
    [[nodiscard]] std::uint64_t bytes_in_last_chunk() const;
    // gi_frame_state of the generator whose frame this is, where that copy holds it.
    [[nodiscard]] std::optional<std::int8_t> generator_state(Address frame, bool other) const;
    [[nodiscard]] const std::byte* copy_in(const Region& region, Address begin, bool other) const;
    const std::byte* find_copy(Address address, bool other);
    const std::byte* find_copy_elsewhere(Address begin, bool other);
    const std::byte* find_extra(Address address) const;
    const std::byte* find_on_c_stack(Address begin, std::uint64_t bytes) const;
    const std::byte* find_frame_on_c_stack(Address address) const;
    const std::byte* read_missing(Memory& memory, Address address);
    void read_remembered_chain(Memory& memory, Address address);
    void learn(Address leaf);
    void learn_single(Address address);
    void learn_caller(Address address, Address caller);
    [[nodiscard]] bool is_worth_a_range(const SingleFrame& single) const;
    void refuse_entries_on_data_stack(Walk& walk) const;
    [[nodiscard]] Address thread_pointer(Offset offset) const { return thread_pointer(pointers_, offset); }
    [[nodiscard]] bool is_on_data_stack(Address address) const { return data_stack_.holder_of(address).has_value(); }

    const Layout& layout_;
    const FrameShape& shape_;
    std::uint32_t head_bytes_ = 0;  // before a frame off the data stack: the end of its generator's fields
    Address thread_state_;
    Address interpreter_{};
    std::uint64_t pthread_ = 0;

    // What leads to the leaf, as it was read with the frames, and once more between two copies.
    struct Pointers {
        std::vector<std::byte> thread;
        std::vector<std::byte> cells;  // of cframes: each one's pointer to its frame
        bool has_thread = false;
        bool has_cells = false;
    };
    Pointers pointers_;
    Pointers second_;
    // 3.11 and 3.12: cframes that were the current one lately, the last one first. A program whose C code calls back goes
    // from one to the other all the time; those that lie near each other are read as one range.
    struct SeenCframe {
        Address address{};
        std::uint64_t last_used = 0;  // sample number
    };
    std::vector<SeenCframe> cframes_;
    Address cells_begin_{};  // where the planned cells stand

    DataStack data_stack_;
    std::vector<DataStack::Chunk> fresh_chunks_;
    std::vector<std::size_t> chunk_order_;  // in which they are planned
    bool has_read_untried_ = false;
    std::size_t single_misses_ = 0;  // of this sample
    std::vector<Region> regions_;    // one a chunk with its header, root first, then single frames by their address
    std::size_t first_single_ = 0;   // of them
    std::size_t first_ahead_ = 0;    // chunks from this one on are seldom there
    std::size_t first_gone_ = 0;     // the lowest chunk that could not be read; those above it were not tried
    float generator_leaves_ = 0;     // share of recent samples whose leaf stood off the data stack
    std::vector<std::byte> frames_;  // behind the pointer
    std::vector<std::byte> other_;
    std::size_t cursor_ = 0;         // region of the last hit
    std::vector<Planned> planned_;
    std::vector<std::size_t> order_;  // of the regions, those that the leaf most likely stands in first
    Copies copies_ = Copies::kOne;
    CStackBytes c_stack_;               // within take() alone
    Motion motion_ = Motion::kMoves;    // the same

    std::vector<Region> extra_regions_;  // read directly for this sample
    std::vector<std::size_t> extra_chunks_;                    // of them: parts of a chunk
    tsl::robin_map<std::uint64_t, std::size_t> extra_frames_;  // ... single frames, by their begin
    std::vector<std::byte> extra_;
    std::vector<ReadRange> missing_;
    std::vector<SingleFrame> single_frames_;   // used lately, by address
    tsl::robin_map<std::uint64_t, Address> callers_;  // of frames off the data stack, the next one of these, as seen last
    std::uint64_t sample_ = 0;
    std::uint64_t misses_ = 0;
    std::uint64_t learnt_ = 0;  // the sample that was learnt from last
    bool is_pointer_late_ = false;

    WalkLimits limits_;
    Address leaf_{};
    Address leaf_cframe_{};
    Walk walk_;
    Walk other_walk_;
};

}  // namespace pyprof
