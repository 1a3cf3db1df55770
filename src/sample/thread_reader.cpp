// SPDX-License-Identifier: Apache-2.0
#include "sample/thread_reader.h"

#include <algorithm>

namespace pyprof {

namespace {

// Bytes are nearly free up to a page (docs/how-it-works.md), a second call is not: read a little more
// of the chunk than the last samples used.
constexpr std::uint64_t kSlackBytes = 1'024;
constexpr std::uint64_t kMaxChunkBytes = 64U << 20;
constexpr std::size_t kMaxChunks = 65'536;
// Of the frames of one thread: what kMaxSteps of the usual size take.
constexpr std::uint64_t kMaxCopyBytes = 64U << 20;
// Each planned range costs 0.3 us of every sample, a missed frame 1.4 us of one.
constexpr std::size_t kMaxSingleFrames = 64;
// What lies closer than this is read as one: so many bytes cost less than a range. No page lies between whole.
constexpr std::uint64_t kGapBytes = 2'048;
constexpr std::size_t kMaxHeapFrames = 64;  // up to 3.10, where every frame stands alone
constexpr std::uint64_t kForgetAfterSamples = 64;
// A frame is planned for the sample after the one that used it, and beyond that as long as one sample in twenty or so
// uses it: where 200 tasks take turns, none of their frames pays for its range.
constexpr float kKeptASample = 31.0F / 32;
constexpr float kWorthARange = 1.5F;
constexpr float kForgotten = 0.25F;
constexpr std::size_t kMaxCandidates = 256;
constexpr std::size_t kMaxCallers = 2 * kMaxFrames;
constexpr std::uint64_t kLearnCallersEvery = 16;
constexpr std::size_t kMaxRemembered = 1'000;

void clear(Walk& walk) {
    walk.frames.clear();
    walk.off_stack.clear();
    walk.entries.clear();
    walk.steps = 0;
    walk.end = WalkEnd::kUnreadable;
}

}  // namespace

void read_all(Memory& memory, std::span<const ReadRange> ranges, std::vector<std::uint8_t>& filled) {
    filled.assign(ranges.size(), 0);
    std::size_t done = 0;
    while (done < ranges.size()) {
        const ReadOutcome outcome = memory.read(ranges.subspan(done));
        std::fill_n(filled.begin() + static_cast<std::ptrdiff_t>(done), outcome.complete, std::uint8_t{1});
        done += outcome.complete;
        if (done >= ranges.size()) break;
        if (outcome.fault == ReadFault::kGone || outcome.fault == ReadFault::kDenied) break;
        ++done;
    }
}

ThreadReader::ThreadReader(const Layout& layout, const FrameShape& shape, Address thread_state)
    : layout_(layout), shape_(shape), thread_state_(thread_state) {
    const Layout::Thread& t = layout.thread;
    const Offset last = std::max({t.interp, t.frame, t.cframe, t.current_frame, t.base_frame, t.status, t.holds_gil,
                                  t.gil_requested, t.state, t.thread_id, t.native_thread_id, t.datastack_chunk,
                                  t.datastack_top, t.datastack_limit});
    thread_bytes_.resize(at(last) + 8);
    if (shape.on_data_stack() && has(layout.generator.frame_state) && !shape.clears_popped_frames()) {
        head_bytes_ = static_cast<std::uint32_t>(layout.generator.frame - layout.generator.frame_state + 7) / 8 * 8;
    }
}

Address ThreadReader::thread_pointer(Offset offset) const {
    return Address{load<std::uint64_t>(thread_bytes_.data(), at(offset))};
}

void ThreadReader::plan_regions() {
    regions_.clear();
    std::size_t offset = 0;
    const auto add = [&](Address begin, std::uint64_t bytes) {
        Region region;
        region.begin = begin;
        region.end = begin + bytes;
        region.offset = offset;
        offset += (bytes + 7) & ~std::uint64_t{7};
        regions_.push_back(region);
    };
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        const Chunk& chunk = chunks_[i];
        const std::uint64_t whole = distance(chunk.begin, chunk.end);
        const std::uint64_t used = i == 0 ? high_water_ + kSlackBytes : distance(chunk.begin, chunk.used);
        const std::uint64_t bytes = std::min(used, whole);
        if (offset + bytes <= kMaxCopyBytes) add(chunk.begin, bytes);
    }
    first_single_ = regions_.size();
    std::sort(single_frames_.begin(), single_frames_.end(),
              [](const SingleFrame& a, const SingleFrame& b) { return raw(a.address) < raw(b.address); });
    std::size_t planned = 0;
    for (std::size_t i = 0; i < single_frames_.size() && planned < kMaxSingleFrames;) {
        if (!is_worth_a_range(single_frames_[i])) {
            ++i;
            continue;
        }
        ++planned;
        const Address begin = single_frames_[i].address - head_bytes_;
        Address end = single_frames_[i].address + shape_.begin() + shape_.bytes();
        for (++i; i < single_frames_.size(); ++i) {
            const Address next = single_frames_[i].address - head_bytes_;
            if (!is_worth_a_range(single_frames_[i])) continue;
            if (raw(next) > raw(end) + kGapBytes) break;
            end = single_frames_[i].address + shape_.begin() + shape_.bytes();
        }
        add(begin, distance(begin, end));
    }
    if (after_.size() < offset) after_.resize(offset);
    if (sandwich_ && before_.size() < offset) before_.resize(offset);
}

void ThreadReader::plan(std::vector<ReadRange>& ranges, bool sandwich, bool with_c_stack) {
    sandwich_ = sandwich;
    plan_regions();
    planned_.clear();
    const auto add_region = [&](Planned::What what, std::size_t i, std::vector<std::byte>& arena) {
        const Region& region = regions_[i];
        ranges.push_back({region.begin, std::span(arena).subspan(region.offset, distance(region.begin, region.end))});
        planned_.push_back({what, i});
    };
    // Leaves live shortest: their two copies lie closest to the pointer between them.
    order_.clear();
    const bool singles_first = generator_leaves_ > 0.5F;
    for (std::size_t i = singles_first ? first_single_ : 0; i < regions_.size(); ++i) order_.push_back(i);
    for (std::size_t i = 0; singles_first && i < first_single_; ++i) order_.push_back(i);
    for (std::size_t i = order_.size(); sandwich && i > 0; --i) add_region(Planned::What::kBefore, order_[i - 1], before_);
    ranges.push_back({thread_state_, thread_bytes_});
    planned_.push_back({Planned::What::kThread, 0});
    if (layout_.frame_root == FrameRoot::kThreadCframe && cframe_ != kNullAddress && !with_c_stack) {
        ranges.push_back({cframe_ + at(layout_.cframe.current_frame), cframe_bytes_});
        planned_.push_back({Planned::What::kCframe, 0});
    }
    for (const std::size_t i : order_) add_region(Planned::What::kAfter, i, after_);
}

void ThreadReader::note_filled(std::span<const std::uint8_t> filled) {
    has_thread_ = false;
    has_cframe_ = false;
    for (std::size_t i = 0; i < planned_.size(); ++i) {
        const bool ok = i < filled.size() && filled[i] != 0;
        switch (planned_[i].what) {
            case Planned::What::kBefore:
                regions_[planned_[i].region].in_before = ok;
                break;
            case Planned::What::kThread:
                has_thread_ = ok;
                break;
            case Planned::What::kCframe:
                has_cframe_ = ok;
                break;
            case Planned::What::kAfter:
                regions_[planned_[i].region].in_after = ok;
                break;
        }
    }
}

// What could not be read is gone, and would end the next read early, too.
void ThreadReader::forget_unreadable() {
    for (std::size_t i = first_single_; i < regions_.size(); ++i) {
        const Region& region = regions_[i];
        if (region.in_after) continue;
        std::erase_if(single_frames_, [&](const SingleFrame& single) {
            return is_within(single.address + shape_.begin(), region.begin, region.end);
        });
    }
    const auto is_missing = [](const Region& region) { return !region.in_after; };
    const auto chunks_end = regions_.begin() + static_cast<std::ptrdiff_t>(first_single_);
    if (std::any_of(regions_.begin(), chunks_end, is_missing)) chunks_.clear();
}

bool ThreadReader::is_same_thread() const {
    return has_thread_ && thread_pointer(layout_.thread.interp) == interpreter_ &&
           load<std::uint64_t>(thread_bytes_.data(), at(layout_.thread.thread_id)) == pthread_;
}

std::optional<Address> ThreadReader::find_leaf(Memory& memory) {
    switch (layout_.frame_root) {
        case FrameRoot::kThreadFrame:
            return thread_pointer(layout_.thread.frame);
        case FrameRoot::kThreadCurrent:
            return thread_pointer(layout_.thread.current_frame);
        case FrameRoot::kThreadCframe:
            break;
    }
    const Address cframe = thread_pointer(layout_.thread.cframe);
    leaf_cframe_ = cframe;
    if (cframe == kNullAddress) return kNullAddress;
    if (const std::byte* copy = find_on_c_stack(cframe + at(layout_.cframe.current_frame), 8)) {
        return Address{load<std::uint64_t>(copy, 0)};
    }
    if (cframe != cframe_ || !has_cframe_) {
        cframe_ = cframe;
        ++misses_;
        if (!read_bytes(memory, cframe + at(layout_.cframe.current_frame), cframe_bytes_)) return std::nullopt;
    }
    return Address{load<std::uint64_t>(cframe_bytes_, 0)};
}

// A loop that begins puts its cframe up first and its frame into it some twenty instructions later: what stands there
// until then is the rest of an earlier one (_PyEval_EvalFrameDefault in Python/ceval.c of 3.11 and 3.12).
std::optional<Address> ThreadReader::leaf_of_previous_cframe() {
    if (layout_.frame_root != FrameRoot::kThreadCframe) return std::nullopt;
    const std::byte* link = find_on_c_stack(leaf_cframe_ + at(layout_.cframe.previous), 8);
    if (link == nullptr) return std::nullopt;
    const Address previous{load<std::uint64_t>(link, 0)};
    const std::byte* frame = find_on_c_stack(previous + at(layout_.cframe.current_frame), 8);
    if (frame == nullptr || raw(previous) <= raw(leaf_cframe_)) return std::nullopt;
    leaf_cframe_ = previous;
    return Address{load<std::uint64_t>(frame, 0)};
}

// The chunk list changes only when the stack grows over a chunk's end or shrinks below its start: the
// part of the list that is known already is kept.
void ThreadReader::follow_chunks(Memory& memory) {
    const Address current = thread_pointer(layout_.thread.datastack_chunk);
    if (!chunks_.empty() && chunks_.front().address == current) return;
    const auto known = std::find_if(chunks_.begin(), chunks_.end(),
                                    [&](const Chunk& chunk) { return chunk.address == current; });
    if (known != chunks_.end()) {
        chunks_.erase(chunks_.begin(), known);
        high_water_ = distance(chunks_.front().begin, chunks_.front().used);
        return;
    }
    std::vector<Chunk> fresh;
    Address address = current;
    auto rest = chunks_.end();
    std::byte header[24];
    while (address != kNullAddress && fresh.size() < kMaxChunks) {
        rest = std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) { return chunk.address == address; });
        if (!read_bytes(memory, address, header)) break;
        const auto size = load<std::uint64_t>(header, at(layout_.chunk.size));
        const auto top = load<std::uint64_t>(header, at(layout_.chunk.top));
        if (size <= at(layout_.chunk.data) || size > kMaxChunkBytes) break;
        Chunk chunk;
        chunk.address = address;
        chunk.begin = address + at(layout_.chunk.data);
        chunk.end = address + size;
        chunk.used = chunk.begin + std::min(top * 8, distance(chunk.begin, chunk.end));
        fresh.push_back(chunk);
        if (rest != chunks_.end()) {
            ++rest;
            break;  // what lies below is as it was
        }
        address = Address{load<std::uint64_t>(header, at(layout_.chunk.previous))};
    }
    fresh.insert(fresh.end(), rest, chunks_.end());
    chunks_ = std::move(fresh);
    high_water_ = 0;
    recent_water_ = 0;
}

const ThreadReader::Chunk* ThreadReader::chunk_of(Address address) const {
    for (const Chunk& chunk : chunks_) {
        if (is_within(address, chunk.begin, chunk.end)) return &chunk;
    }
    return nullptr;
}

const std::byte* ThreadReader::find_copy(Address address, bool before) {
    const Address begin = address + shape_.begin();
    const std::size_t count = regions_.size();
    for (std::size_t step = 0; step < count; ++step) {
        const std::size_t i = cursor_ + step < count ? cursor_ + step : cursor_ + step - count;
        const Region& region = regions_[i];
        if (!is_range_within(begin, shape_.bytes(), region.begin, region.end)) continue;
        if (!(before ? region.in_before : region.in_after)) continue;
        cursor_ = i;
        return (before ? before_ : after_).data() + region.offset + distance(region.begin, begin);
    }
    return nullptr;
}

// gi_frame_state, which stands right before the frame: above zero are the ended ones (FRAME_COMPLETED, FRAME_CLEARED of
// Include/internal/pycore_frame.h).
bool ThreadReader::had_ended(Address address) const {
    constexpr std::int8_t kMostStates = 8;
    if (head_bytes_ == 0) return false;
    const Address state = address - static_cast<std::uint64_t>(layout_.generator.frame - layout_.generator.frame_state);
    for (std::size_t i = first_single_; i < regions_.size(); ++i) {
        const Region& region = regions_[i];
        if (!region.in_before || !is_within(state, region.begin, region.end)) continue;
        const auto value = load<std::int8_t>(before_.data(), region.offset + distance(region.begin, state));
        return value > 0 && value < kMostStates;
    }
    return false;
}

const std::byte* ThreadReader::find_extra(Address address) const {
    const Address begin = address + shape_.begin();
    if (const auto found = extra_frames_.find(raw(begin)); found != extra_frames_.end()) {
        const Region& region = extra_regions_[found->second];
        return region.in_after ? extra_.data() + region.offset : nullptr;
    }
    for (const std::size_t i : extra_chunks_) {
        const Region& region = extra_regions_[i];
        if (region.in_after && is_range_within(begin, shape_.bytes(), region.begin, region.end)) {
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
    ++misses_;
    const Chunk* chunk = chunk_of(address);
    if (extra_.size() > kMaxCopyBytes) return nullptr;
    if (chunk == nullptr) {
        read_remembered_chain(memory, address);
    } else {
        // Callers stand below: one read brings all of this chunk's part of the stack.
        Region region;
        region.begin = chunk->begin;
        region.end = address + shape_.begin() + shape_.bytes();
        region.offset = extra_.size();
        extra_.resize(extra_.size() + distance(region.begin, region.end));
        region.in_after = read_bytes(memory, region.begin, std::span(extra_).subspan(region.offset));
        extra_chunks_.push_back(extra_regions_.size());
        extra_regions_.push_back(region);
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
    std::vector<ReadRange> ranges;
    for (std::size_t i = first; i < extra_regions_.size(); ++i) {
        ranges.push_back({extra_regions_[i].begin, std::span(extra_).subspan(extra_regions_[i].offset, shape_.bytes())});
    }
    const std::size_t complete = memory.read(ranges).complete;
    for (std::size_t i = 0; i < complete; ++i) extra_regions_[first + i].in_after = true;
}

bool ThreadReader::is_chunk_start(Address address) const {
    return std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
        return address == chunk.begin || address == chunk.begin + 8;  // a thread's first one keeps its first word free
    });
}

// Entry frames live on the C stack, generators' in their objects: what looks like one in a chunk is the rest of
// frames that stood there before.
void ThreadReader::refuse_entries_on_data_stack(Walk& walk) const {
    if (walk.end != WalkEnd::kRoot) return;
    for (const Address address : walk.off_stack) {
        if (chunk_of(address) != nullptr) walk.end = WalkEnd::kInvalid;
    }
}

ThreadReader::Status ThreadReader::take(Memory& memory, std::span<const std::uint8_t> filled, const CStackBytes& c_stack) {
    c_stack_ = c_stack;
    const Status status = take_copies(memory, filled);
    c_stack_ = {};
    return status;
}

ThreadReader::Status ThreadReader::take_copies(Memory& memory, std::span<const std::uint8_t> filled) {
    ++sample_;
    note_filled(filled);
    extra_regions_.clear();
    extra_chunks_.clear();
    if (!extra_frames_.empty()) extra_frames_.clear();
    extra_.clear();
    forget_unreadable();
    if (!is_same_thread()) return Status::kGone;
    if (has(layout_.thread.datastack_chunk)) follow_chunks(memory);

    if (has(layout_.thread.base_frame)) limits_.base_frame = thread_pointer(layout_.thread.base_frame);
    const std::optional<Address> found = find_leaf(memory);
    Address leaf = found.value_or(kNullAddress);
    const auto walk = [&] {
        leaf_ = leaf;
        cursor_ = 0;
        clear(after_walk_);
        if (leaf == kNullAddress || leaf == limits_.base_frame) return;
        walk_frames(shape_, leaf, limits_,
                    [&](Address address) {
                        if (const std::byte* copy = find_frame_on_c_stack(address)) return copy;
                        const std::byte* copy = find_copy(address, false);
                        return copy != nullptr ? copy : read_missing(memory, address);
                    },
                    after_walk_);
        refuse_entries_on_data_stack(after_walk_);
    };
    walk();
    if (after_walk_.end != WalkEnd::kRoot) {
        if (const auto below = leaf_of_previous_cframe()) {
            leaf = *below;
            walk();
        }
    }
    clear(before_walk_);
    if (leaf == kNullAddress || leaf == limits_.base_frame) return found ? Status::kNoFrame : Status::kOk;
    if (sandwich_) {
        cursor_ = 0;
        walk_frames(shape_, leaf, limits_, [&](Address address) { return find_copy(address, true); }, before_walk_);
        refuse_entries_on_data_stack(before_walk_);
    }
    learn(leaf);
    return Status::kOk;
}

std::optional<RawFrame> ThreadReader::frame_in(Address address, Address caller, bool before) {
    const auto find = [&](Address wanted) {
        const std::byte* copy = find_copy(wanted, before);
        return copy != nullptr || before ? copy : find_extra(wanted);
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
        if (!shim.is_valid || !shim.is_shim || chunk_of(back) != nullptr) return std::nullopt;
        frame.through_c = true;
        back = shim.back;
    }
    const bool is_root = back == kNullAddress || back == limits_.base_frame;
    if (caller == kNullAddress ? !is_root : back != caller) return std::nullopt;
    return frame;
}

// What this sample needed, the next one will need.
void ThreadReader::learn(Address leaf) {
    if (!chunks_.empty()) {
        const Chunk& chunk = chunks_.front();
        if (is_within(leaf, chunk.begin, chunk.end)) {
            recent_water_ = std::max(recent_water_, distance(chunk.begin, leaf) + shape_.bytes());
        }
        high_water_ = std::max(high_water_, recent_water_);
        if (sample_ % kForgetAfterSamples == 0) {
            high_water_ = recent_water_;
            recent_water_ = 0;
        }
    }
    generator_leaves_ = generator_leaves_ * kKeptASample + (chunk_of(leaf) == nullptr ? 1 - kKeptASample : 0);
    const auto& off_stack = after_walk_.off_stack;
    const auto& frames = after_walk_.frames;
    const bool on_data_stack = shape_.on_data_stack();
    const std::size_t count = on_data_stack ? off_stack.size() : frames.size();
    const auto address = [&](std::size_t i) { return on_data_stack ? off_stack[i] : frames[i].address; };
    for (std::size_t i = 0; i < count && i < (on_data_stack ? kMaxCandidates : kMaxHeapFrames); ++i) learn_single(address(i));
    if (!extra_regions_.empty() || sample_ % kLearnCallersEvery == 0) {  // else what was learnt holds
        for (std::size_t i = 0; i + 1 < count && i < kMaxFrames; ++i) learn_caller(address(i), address(i + 1));
    }
    std::erase_if(single_frames_, [](SingleFrame& single) { return (single.uses *= kKeptASample) < kForgotten; });
}

bool ThreadReader::is_worth_a_range(const SingleFrame& single) const {
    return single.last_used == sample_ || single.uses >= kWorthARange;
}

void ThreadReader::learn_single(Address address) {
    if (chunk_of(address) != nullptr || find_frame_on_c_stack(address) != nullptr) return;
    const auto known = std::find_if(single_frames_.begin(), single_frames_.end(),
                                    [&](const SingleFrame& single) { return single.address == address; });
    if (known == single_frames_.end()) {
        if (single_frames_.size() < kMaxCandidates) single_frames_.push_back({address, sample_, 1});
        return;
    }
    known->uses += 1;
    known->last_used = sample_;
}

void ThreadReader::learn_caller(Address address, Address caller) {
    if (callers_.size() >= kMaxCallers) callers_.clear();
    callers_[raw(address)] = caller;
}

}  // namespace pyprof
