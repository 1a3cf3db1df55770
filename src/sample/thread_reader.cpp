// SPDX-License-Identifier: Apache-2.0
#include "sample/thread_reader.h"

#include <algorithm>
#include <utility>

namespace pyprof {

namespace {

constexpr std::size_t kMaxHeapFrames = 64;  // up to 3.10, where every frame stands alone
// A frame is planned for the sample after the one that used it, and beyond that as long as one sample in twenty or so
// uses it: where 200 tasks take turns, none of their frames pays for its range.
constexpr float kKeptASample = 31.0F / 32;
constexpr float kWorthARange = 1.5F;
constexpr float kForgotten = 0.25F;
constexpr std::size_t kMaxCallers = 2 * kMaxFrames;
constexpr std::uint64_t kLearnCallersEvery = 16;
constexpr std::size_t kMaxCframes = 4;
constexpr std::size_t kMaxRemembered = 1'000;

void clear(Walk& walk) {
    walk.frames.clear();
    walk.off_stack.clear();
    walk.entries.clear();
    walk.steps = 0;
    walk.end = WalkEnd::kUnreadable;
}

// Of the pile of a range that could not be read: the height from which on none is worth a try, the range from which on to read
// anew, and, where that is an earlier one, the ranges behind the same pointer that stand above, lowest first.
struct Retry {
    std::size_t height = 0;
    std::size_t from = 0;
    std::vector<std::size_t> above;
};

Retry retry_without(std::size_t bad, std::span<const ReadRange> ranges, std::span<const std::uint8_t> filled,
                    std::span<const ReadLevel> levels) {
    const ReadLevel& level = levels[bad];
    Retry retry{level.height, bad + 1, {}};
    if (level.pointer_range == ReadLevel::kNoPointer || filled[level.pointer_range] == kNotFilled) return retry;
    const Address highest{load<std::uint64_t>(ranges[level.pointer_range].to.data(), level.pointer_offset)};
    const auto is_below = [&](std::size_t i) { return levels[i].pile == level.pile && levels[i].height < level.height; };
    const auto is_led = [&](std::size_t i) { return levels[i].pile == level.pile && levels[i].pointer_range == level.pointer_range; };
    bool has_frames = false;                      // behind that pointer
    bool is_known = ranges[bad].from == highest;  // then it was freed after the pointer was read
    for (std::size_t i = 0; i < levels.size(); ++i) {
        has_frames |= is_led(i) && filled[i] != kNotFilled;
        if (!is_below(i) || ranges[i].from != highest) continue;
        retry.height = levels[i].height + 1;
        is_known = true;
    }
    if (has_frames || !is_known) return retry;
    retry.from = level.pointer_range;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        if (is_led(i) && is_below(i) && levels[i].height >= retry.height) retry.above.push_back(i);
    }
    std::sort(retry.above.begin(), retry.above.end(), [&](std::size_t a, std::size_t b) { return levels[a].height < levels[b].height; });
    return retry;
}

}  // namespace

void read_all(Memory& memory, std::span<const ReadRange> ranges, std::vector<std::uint8_t>& filled, std::span<const ReadLevel> levels) {
    filled.assign(ranges.size(), kNotFilled);
    std::vector<ReadRange> rest;  // without those that are gone, and where they stand in `ranges`; made where one is
    std::vector<std::size_t> places;
    std::size_t done = 0;
    std::size_t in_order = ranges.size();  // so many of those left stand where they stand in `ranges`
    const auto left = [&] { return (places.empty() ? ranges : std::span<const ReadRange>(rest)).subspan(done); };
    const auto place = [&](std::size_t i) { return places.empty() ? i : places[i]; };
    while (!left().empty()) {
        const ReadOutcome outcome = memory.read(left());
        for (std::size_t i = done; i < done + outcome.complete; ++i) filled[place(i)] = i < in_order ? kFilled : kFilledLast;
        done += outcome.complete;
        if (left().empty() || outcome.fault == ReadFault::kGone || outcome.fault == ReadFault::kDenied) break;
        const std::size_t bad = place(done++);
        if (bad >= levels.size() || levels[bad].pile == kNullAddress) continue;
        const Retry retry = retry_without(bad, ranges, filled, levels);
        std::vector<ReadRange> lower;
        std::vector<std::size_t> lower_places;
        const auto add = [&](std::size_t at) {
            filled[at] = kNotFilled;  // what is read anew counts only if it can be read
            lower.push_back(ranges[at]);
            lower_places.push_back(at);
        };
        const auto add_lower = [&](std::size_t at) {
            if (at >= levels.size() || levels[at].pile != levels[bad].pile || levels[at].height < retry.height) add(at);
        };
        const std::size_t count = done + left().size();
        for (std::size_t i = retry.from; i < bad; ++i) add_lower(i);
        for (std::size_t i = done; i < std::min(in_order, count); ++i) add_lower(place(i));
        const std::size_t still_in_order = lower.size();
        for (std::size_t i = std::max(in_order, done); i < count; ++i) add_lower(place(i));
        for (const std::size_t i : retry.above) add(i);
        if (lower.empty()) break;
        rest = std::move(lower);
        places = std::move(lower_places);
        in_order = still_in_order;
        done = 0;
    }
}

ThreadReader::ThreadReader(const Layout& layout, const FrameShape& shape, Address thread_state)
    : layout_(layout), shape_(shape), thread_state_(thread_state), data_stack_(layout.chunk) {
    const Layout::Thread& t = layout.thread;
    const Offset last = std::max({t.interp, t.frame, t.cframe, t.current_frame, t.base_frame, t.status, t.holds_gil,
                                  t.gil_requested, t.state, t.thread_id, t.native_thread_id, t.datastack_chunk,
                                  t.datastack_top, t.datastack_limit});
    for (Pointers* pointers : {&pointers_, &second_}) pointers->thread.resize(at(last) + 8);
    if (shape.on_data_stack() && has(layout.generator.frame_state) && !shape.clears_popped_frames()) {
        head_bytes_ = static_cast<std::uint32_t>(layout.generator.frame - layout.generator.frame_state + 7) / 8 * 8;
    }
}

Address ThreadReader::thread_pointer(const Pointers& pointers, Offset offset) const {
    return Address{load<std::uint64_t>(pointers.thread.data(), at(offset))};
}

bool ThreadReader::is_same_thread() const {
    return pointers_.has_thread && thread_pointer(layout_.thread.interp) == interpreter_ &&
           raw(thread_pointer(layout_.thread.thread_id)) == pthread_;
}

std::optional<Address> ThreadReader::planned_leaf(const Pointers& pointers) const {
    switch (layout_.frame_root) {
        case FrameRoot::kThreadFrame:
            return thread_pointer(pointers, layout_.thread.frame);
        case FrameRoot::kThreadCurrent:
            return thread_pointer(pointers, layout_.thread.current_frame);
        case FrameRoot::kThreadCframe:
            break;
    }
    const Address cell = thread_pointer(pointers, layout_.thread.cframe) + at(layout_.cframe.current_frame);
    if (!pointers.has_cells || !is_range_within(cell, 8, cells_begin_, cells_begin_ + pointers.cells.size())) return std::nullopt;
    return Address{load<std::uint64_t>(pointers.cells.data(), distance(cells_begin_, cell))};
}

std::optional<Address> ThreadReader::second_pointer() const {
    return has_second_moment() ? planned_leaf(second_) : std::nullopt;
}

std::optional<Address> ThreadReader::find_leaf(Memory& memory) {
    if (layout_.frame_root != FrameRoot::kThreadCframe) return planned_leaf(pointers_);
    const Address cframe = thread_pointer(layout_.thread.cframe);
    leaf_cframe_ = cframe;
    if (cframe == kNullAddress) return kNullAddress;
    const Address cell = cframe + at(layout_.cframe.current_frame);
    if (const std::byte* copy = find_on_c_stack(cell, 8)) return Address{load<std::uint64_t>(copy, 0)};
    learn_cframe(cframe);
    if (const auto planned = planned_leaf(pointers_)) return planned;
    ++misses_;
    is_pointer_late_ = true;
    return read_pointer(memory, cell);
}

void ThreadReader::learn_cframe(Address cframe) {
    const auto known = std::find_if(cframes_.begin(), cframes_.end(), [&](const SeenCframe& seen) { return seen.address == cframe; });
    if (known != cframes_.end()) {
        std::rotate(cframes_.begin(), known, known + 1);
    } else {
        if (cframes_.size() >= kMaxCframes) cframes_.pop_back();
        cframes_.insert(cframes_.begin(), SeenCframe{cframe, sample_});
    }
    cframes_.front().last_used = sample_;
}

// A loop that begins puts its cframe up first and its frame into it some twenty instructions later: what stands there
// until then is the rest of an earlier one (_PyEval_EvalFrameDefault in Python/ceval.c of 3.11 and 3.12).
std::optional<Address> ThreadReader::leaf_of_previous_cframe(Memory& memory) {
    if (layout_.frame_root != FrameRoot::kThreadCframe) return std::nullopt;
    const auto previous = word_that_stands(memory, leaf_cframe_ + at(layout_.cframe.previous));
    if (!previous || *previous <= raw(leaf_cframe_)) return std::nullopt;
    const auto frame = word_that_stands(memory, Address{*previous} + at(layout_.cframe.current_frame));
    if (!frame) return std::nullopt;
    leaf_cframe_ = Address{*previous};
    return Address{*frame};
}

// Nothing where the thread may have gone on since its frames were copied.
std::optional<std::uint64_t> ThreadReader::word_that_stands(Memory& memory, Address at) const {
    if (const std::byte* copy = find_on_c_stack(at, 8)) return load<std::uint64_t>(copy, 0);
    if (motion_ == Motion::kMoves) return std::nullopt;
    const auto word = read_pointer(memory, at);
    return word ? std::optional(raw(*word)) : std::nullopt;
}

// Whether the pointer to the leaf may be that of an earlier loop, as above. What it leads to does not execute then. It has been
// popped; or it is the frame of the very call that is about to enter its loop, and has no loop below it yet. Other leaves that
// do not execute wait for a trace function in C. An entry frame (3.12) is current as its loop ends, when the frame below it
// is what stands in the loop before; and it is what that loop leaves behind.
bool ThreadReader::may_be_left_over() const {
    if (layout_.frame_root != FrameRoot::kThreadCframe || walk_.frames.empty()) return false;
    const RawFrame& leaf = walk_.frames.front();
    if (leaf.address != leaf_) return true;
    if (!shape_.is_suspended(leaf)) return false;
    if (leaf.of_generator) return generator_state(leaf.address, false).value_or(1) != 0;  // FRAME_EXECUTING
    const auto chunk = data_stack_.holder_of(leaf.address);
    if (!chunk) return true;
    const bool is_popped = *chunk + 1 == data_stack_.in_use() && raw(leaf.address) >= raw(thread_pointer(layout_.thread.datastack_top));
    return is_popped || std::none_of(walk_.frames.begin(), walk_.frames.end(), [](const RawFrame& frame) { return frame.through_c; });
}

inline const std::byte* ThreadReader::copy_in(const Region& region, Address begin, bool other) const {
    if (!is_range_within(begin, shape_.bytes(), region.begin, region.end)) return nullptr;
    if (!(other ? region.is_in_other : region.is_read)) return nullptr;
    return (other ? other_ : frames_).data() + region.offset + distance(region.begin, begin);
}

// Nearly all frames of a stack lie in the region of the one before.
inline const std::byte* ThreadReader::find_copy(Address address, bool other) {
    const Address begin = address + shape_.begin();
    if (cursor_ < regions_.size()) {
        if (const std::byte* copy = copy_in(regions_[cursor_], begin, other)) return copy;
    }
    return find_copy_elsewhere(begin, other);
}

const std::byte* ThreadReader::find_copy_elsewhere(Address begin, bool other) {
    const std::size_t count = regions_.size();
    for (std::size_t step = 0; step < count; ++step) {
        const std::size_t i = cursor_ + step < count ? cursor_ + step : cursor_ + step - count;
        const std::byte* copy = copy_in(regions_[i], begin, other);
        if (copy == nullptr) continue;
        cursor_ = i;
        return copy;
    }
    return nullptr;
}

const std::byte* ThreadReader::copy_of(Address address, bool other) { return find_copy(address, other); }

// It stands right before the frame: above zero are the ended ones (FRAME_COMPLETED, FRAME_CLEARED of
// Include/internal/pycore_frame.h).
std::optional<std::int8_t> ThreadReader::generator_state(Address frame, bool other) const {
    constexpr std::int8_t kMostStates = 8;
    if (head_bytes_ == 0) return std::nullopt;
    const Address state = frame - static_cast<std::uint64_t>(layout_.generator.frame - layout_.generator.frame_state);
    for (std::size_t i = first_single_; i < regions_.size(); ++i) {
        const Region& region = regions_[i];
        if (!(other ? region.is_in_other : region.is_read) || !is_within(state, region.begin, region.end)) continue;
        const auto value = load<std::int8_t>((other ? other_ : frames_).data(), region.offset + distance(region.begin, state));
        return value < kMostStates ? std::optional(value) : std::nullopt;
    }
    return std::nullopt;
}

const std::byte* ThreadReader::find_extra(Address address) const {
    const Address begin = address + shape_.begin();
    if (const auto found = extra_frames_.find(raw(begin)); found != extra_frames_.end()) {
        const Region& region = extra_regions_[found->second];
        return region.is_read ? extra_.data() + region.offset : nullptr;
    }
    for (const std::size_t i : extra_chunks_) {
        const Region& region = extra_regions_[i];
        if (region.is_read && is_range_within(begin, shape_.bytes(), region.begin, region.end)) {
            return extra_.data() + region.offset + distance(region.begin, begin);
        }
    }
    return nullptr;
}

const std::byte* ThreadReader::find_on_c_stack(Address begin, std::uint64_t bytes) const {
    if (!is_range_within(begin, bytes, c_stack_.begin, c_stack_.begin + c_stack_.bytes.size())) return nullptr;
    return c_stack_.bytes.data() + distance(c_stack_.begin, begin);
}

const std::byte* ThreadReader::find_frame_on_c_stack(Address address) const {
    return find_on_c_stack(address + shape_.begin(), shape_.bytes());
}

const std::byte* ThreadReader::read_missing(Memory& memory, Address address) {
    if (const std::byte* known = find_extra(address)) return known;
    if (raw(address) < 4096) return nullptr;
    if (extra_.size() > kMaxCopyBytes) return nullptr;
    if (const auto chunk = data_stack_.holder_of(address)) {
        read_missing_chunks(memory, *chunk, address);
    } else {
        if (shape_.on_data_stack() && ++single_misses_ > kMaxSingleMisses) return nullptr;
        ++misses_;
        read_remembered_chain(memory, address);
    }
    return find_extra(address);
}

// A frame outside the data stack: its callers of last time are most likely its callers now, and one call brings them
// all. A coroutine is awaited by one other as long as it lives.
void ThreadReader::read_remembered_chain(Memory& memory, Address address) {
    const std::size_t first = extra_regions_.size();
    std::size_t passed = 0;  // that the plan holds
    while (extra_regions_.size() - first < kMaxRemembered) {
        Region region;
        region.begin = address + shape_.begin();
        region.end = region.begin + shape_.bytes();
        region.offset = extra_.size();
        if (!extra_frames_.try_emplace(raw(region.begin), extra_regions_.size()).second) break;  // links of two moments
        extra_.resize(extra_.size() + shape_.bytes());
        extra_regions_.push_back(region);
        auto caller = callers_.find(raw(address));
        while (caller != callers_.end() && passed++ < kMaxFrames &&
               (find_copy(caller->second, false) != nullptr || find_frame_on_c_stack(caller->second) != nullptr)) {
            caller = callers_.find(raw(caller->second));
        }
        if (caller == callers_.end()) break;
        address = caller->second;
    }
    missing_.clear();
    for (std::size_t i = first; i < extra_regions_.size(); ++i) {
        missing_.push_back({extra_regions_[i].begin, std::span(extra_).subspan(extra_regions_[i].offset, shape_.bytes())});
    }
    const std::size_t complete = memory.read(missing_).complete;
    for (std::size_t i = 0; i < complete; ++i) extra_regions_[first + i].is_read = true;
}

bool ThreadReader::is_chunk_start(Address address) const {
    const auto chunk = data_stack_.holder_of(address);
    return chunk && distance(data_stack_[*chunk].begin, address) <= 8;  // a thread's first one keeps its first word free
}

// Entry frames live on the C stack, generators' in their objects: what looks like one in a chunk is the rest of
// frames that stood there before.
void ThreadReader::refuse_entries_on_data_stack(Walk& walk) const {
    if (walk.end != WalkEnd::kRoot) return;
    for (const Address address : walk.off_stack) {
        if (is_on_data_stack(address)) walk.end = WalkEnd::kInvalid;
    }
}

ThreadReader::Status ThreadReader::take(Memory& memory, std::span<const std::uint8_t> filled, const CStackBytes& c_stack,
                                        Motion motion) {
    c_stack_ = c_stack;
    motion_ = motion;
    const Status status = take_copies(memory, filled);
    c_stack_ = {};
    motion_ = Motion::kMoves;
    return status;
}

ThreadReader::Status ThreadReader::take_copies(Memory& memory, std::span<const std::uint8_t> filled) {
    ++sample_;
    has_read_untried_ = false;
    single_misses_ = 0;
    note_filled(filled);
    extra_regions_.clear();
    extra_chunks_.clear();
    if (!extra_frames_.empty()) extra_frames_.clear();
    extra_.clear();
    forget_unreadable();
    return walk_copies(memory);
}

// The second reading becomes that behind the pointer, and the first one the earlier copy. What was read ahead, or was missed and
// read directly or last, is younger than both.
ThreadReader::Status ThreadReader::take_second_moment(Memory& memory) {
    copies_ = Copies::kAround;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
        Region& region = regions_[i];
        if (!region.is_late && (i < first_ahead_ || i >= first_single_)) {
            std::swap(region.is_read, region.is_in_other);
            continue;
        }
        if (!region.is_read) continue;
        const auto begin = frames_.begin() + static_cast<std::ptrdiff_t>(region.offset);
        std::copy_n(begin, distance(region.begin, region.end), other_.begin() + static_cast<std::ptrdiff_t>(region.offset));
    }
    frames_.swap(other_);
    std::swap(pointers_, second_);
    find_first_gone();
    has_read_untried_ = false;
    single_misses_ = 0;
    return walk_copies(memory);
}

ThreadReader::Status ThreadReader::walk_copies(Memory& memory) {
    is_pointer_late_ = false;
    if (!is_same_thread()) return Status::kGone;
    if (has(layout_.thread.datastack_chunk)) follow_chunks(memory);

    if (has(layout_.thread.base_frame)) limits_.base_frame = thread_pointer(layout_.thread.base_frame);
    const std::optional<Address> found = find_leaf(memory);
    Address leaf = found.value_or(kNullAddress);
    const auto walk = [&] {
        leaf_ = leaf;
        notice_newer_chunk(memory, leaf);
        cursor_ = 0;
        clear(walk_);
        if (leaf == kNullAddress || leaf == limits_.base_frame) return;
        walk_frames(shape_, leaf, limits_,
                    [&](Address address) {
                        if (const std::byte* copy = find_frame_on_c_stack(address)) return copy;
                        const std::byte* copy = find_copy(address, false);
                        return copy != nullptr ? copy : read_missing(memory, address);
                    },
                    walk_);
        refuse_entries_on_data_stack(walk_);
    };
    walk();
    const bool stands = motion_ == Motion::kStands || !c_stack_.bytes.empty();
    if (walk_.end != WalkEnd::kRoot || (stands && may_be_left_over())) {
        if (const auto below = leaf_of_previous_cframe(memory)) {
            leaf = *below;
            walk();
        }
    }
    clear(other_walk_);
    if (leaf == kNullAddress || leaf == limits_.base_frame) return found ? Status::kNoFrame : Status::kOk;
    if (copies_ != Copies::kOne) {
        cursor_ = 0;
        walk_frames(shape_, leaf, limits_, [&](Address address) { return find_copy(address, true); }, other_walk_);
        refuse_entries_on_data_stack(other_walk_);
    }
    learn(leaf);
    return Status::kOk;
}

std::optional<RawFrame> ThreadReader::frame_in(Address address, Address caller, bool other) {
    const auto find = [&](Address wanted) {
        const std::byte* copy = find_copy(wanted, other);
        return copy != nullptr || other ? copy : find_extra(wanted);
    };
    const std::byte* copy = find(address);
    if (copy == nullptr) return std::nullopt;
    const FrameShape::Parsed parsed = shape_.parse(copy, address);
    if (!parsed.is_valid || parsed.is_shim) return std::nullopt;
    RawFrame frame = parsed.frame;
    Address back = parsed.back;
    constexpr int kMaxShimsInARow = 4;  // one stands between two frames; a few where eval loops nest
    for (int i = 0; i < kMaxShimsInARow && back != caller; ++i) {
        if (back == kNullAddress || back == limits_.base_frame) break;
        const std::byte* shim_copy = find(back);
        if (shim_copy == nullptr) return std::nullopt;
        const FrameShape::Parsed shim = shape_.parse(shim_copy, back);
        if (!shim.is_valid || !shim.is_shim || is_on_data_stack(back)) return std::nullopt;
        frame.through_c = true;
        back = shim.back;
    }
    const bool is_root = back == kNullAddress || back == limits_.base_frame;
    if (caller == kNullAddress ? !is_root : back != caller) return std::nullopt;
    return frame;
}

// What this sample needed, the next one will need.
void ThreadReader::learn(Address leaf) {
    const bool is_first = std::exchange(learnt_, sample_) != sample_;  // of the sample's moments
    if (is_first && data_stack_.in_use() > 0) data_stack_.note_sample(bytes_in_last_chunk(), unread_chunk());
    if (is_first) generator_leaves_ = generator_leaves_ * kKeptASample + (is_on_data_stack(leaf) ? 0 : 1 - kKeptASample);
    const auto& off_stack = walk_.off_stack;
    const auto& frames = walk_.frames;
    const bool on_data_stack = shape_.on_data_stack();
    const std::size_t count = on_data_stack ? off_stack.size() : frames.size();
    const auto address = [&](std::size_t i) { return on_data_stack ? off_stack[i] : frames[i].address; };
    for (std::size_t i = 0; i < count && i < (on_data_stack ? kMaxCandidates : kMaxHeapFrames); ++i) learn_single(address(i));
    if (!extra_regions_.empty() || sample_ % kLearnCallersEvery == 0) {  // else what was learnt holds
        for (std::size_t i = 0; i + 1 < count && i < kMaxFrames; ++i) learn_caller(address(i), address(i + 1));
    }
    if (is_first) std::erase_if(single_frames_, [](SingleFrame& single) { return (single.uses *= kKeptASample) < kForgotten; });
}

bool ThreadReader::is_worth_a_range(const SingleFrame& single) const {
    return single.last_used == sample_ || single.uses >= kWorthARange;
}

void ThreadReader::learn_single(Address address) {
    if (is_on_data_stack(address) || find_frame_on_c_stack(address) != nullptr) return;
    const auto known = std::find_if(single_frames_.begin(), single_frames_.end(),
                                    [&](const SingleFrame& single) { return single.address == address; });
    if (known == single_frames_.end()) {
        if (single_frames_.size() < kMaxCandidates) single_frames_.push_back({address, sample_, 1});
        return;
    }
    if (known->last_used != sample_) known->uses += 1;
    known->last_used = sample_;
}

void ThreadReader::learn_caller(Address address, Address caller) {
    if (callers_.size() >= kMaxCallers) callers_.clear();
    callers_[raw(address)] = caller;
}

}  // namespace pyprof
