// SPDX-License-Identifier: Apache-2.0
#include "sample/thread_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pyprof {

namespace {

// Of the frames of one thread: what kMaxSteps of the usual size take.
constexpr std::uint64_t kMaxCopyBytes = 64U << 20;
// Each planned range costs 0.3 us of every sample, a missed frame 1.4 us of one.
constexpr std::size_t kMaxSingleFrames = 64;
// What lies closer than this is read as one: so many bytes cost less than a range. No page lies between whole.
constexpr std::uint64_t kGapBytes = 2'048;
constexpr std::size_t kMaxHeapFrames = 64;  // up to 3.10, where every frame stands alone
// DATA_STACK_CHUNK_SIZE of Python/pystate.c.
constexpr std::uint64_t kUsualChunkBytes = 16U << 10;
constexpr std::size_t kUnbroken = SIZE_MAX;
constexpr std::size_t kMaxChunksACall = 1'000;
// Frames off the data stack that are not known yet: so many a sample are read one by one. More are learnt the next time.
constexpr std::size_t kMaxSingleMisses = 256;
// A frame is planned for the sample after the one that used it, and beyond that as long as one sample in twenty or so
// uses it: where 200 tasks take turns, none of their frames pays for its range.
constexpr float kKeptASample = 31.0F / 32;
constexpr float kWorthARange = 1.5F;
constexpr float kForgotten = 0.25F;
constexpr std::size_t kMaxCandidates = 256;
constexpr std::size_t kMaxCallers = 2 * kMaxFrames;
constexpr std::uint64_t kLearnCallersEvery = 16;
constexpr std::size_t kMaxCframes = 4;
constexpr std::uint64_t kForgetCframe = 256;  // samples
constexpr std::size_t kMaxRemembered = 1'000;

void clear(Walk& walk) {
    walk.frames.clear();
    walk.off_stack.clear();
    walk.entries.clear();
    walk.steps = 0;
    walk.end = WalkEnd::kUnreadable;
}

}  // namespace

void read_all(Memory& memory, std::span<const ReadRange> ranges, std::vector<std::uint8_t>& filled, std::span<const ReadLevel> levels) {
    filled.assign(ranges.size(), 0);
    std::vector<ReadRange> rest;  // without those that are gone, and where they stand in `ranges`; made where one is
    std::vector<std::size_t> places;
    std::size_t done = 0;
    const auto left = [&] { return (places.empty() ? ranges : std::span<const ReadRange>(rest)).subspan(done); };
    const auto place = [&](std::size_t i) { return places.empty() ? i : places[i]; };
    while (!left().empty()) {
        const ReadOutcome outcome = memory.read(left());
        for (std::size_t i = done; i < done + outcome.complete; ++i) filled[place(i)] = 1;
        done += outcome.complete;
        if (left().empty() || outcome.fault == ReadFault::kGone || outcome.fault == ReadFault::kDenied) break;
        const std::size_t bad = place(done++);
        if (bad >= levels.size() || levels[bad].pile == kNullAddress) continue;
        std::vector<ReadRange> lower;
        std::vector<std::size_t> lower_places;
        const std::size_t count = done + left().size();
        for (std::size_t i = done; i < count; ++i) {
            const std::size_t at = place(i);
            if (at < levels.size() && levels[at].pile == levels[bad].pile && levels[at].height >= levels[bad].height) continue;
            lower.push_back(ranges[at]);
            lower_places.push_back(at);
        }
        if (lower.empty()) break;
        rest = std::move(lower);
        places = std::move(lower_places);
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

void ThreadReader::plan_regions(bool looks_ahead) {
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
    // Root first, where chunks come back in the order in which they were; else those first that are there most often.
    const std::size_t likely = looks_ahead ? data_stack_.likely() : data_stack_.in_use();
    chunk_order_.clear();
    for (std::size_t i = 0; i < (looks_ahead ? data_stack_.size() : likely); ++i) chunk_order_.push_back(i);
    if (looks_ahead) {
        std::sort(chunk_order_.begin(), chunk_order_.end(), [&](std::size_t a, std::size_t b) {
            const auto presence_a = data_stack_[a].presence;
            const auto presence_b = data_stack_[b].presence;
            return presence_a > presence_b || (presence_a == presence_b && a < b);
        });
    }
    for (const std::size_t i : chunk_order_) {
        const DataStack::Chunk& chunk = data_stack_[i];
        const std::uint64_t bytes = distance(chunk.address, chunk.begin) + data_stack_.expected_bytes(i);
        if (offset + bytes > kMaxCopyBytes) break;
        add(chunk.address, bytes);
    }
    first_single_ = regions_.size();
    first_ahead_ = std::min(likely, first_single_);
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
    if (frames_.size() < offset) frames_.resize(offset);
    if (copies_ != Copies::kOne && other_.size() < offset) other_.resize(offset);
}

void ThreadReader::plan(std::vector<ReadRange>& ranges, Copies copies, bool with_c_stack, Ahead* ahead) {
    copies_ = copies;
    plan_regions(ahead != nullptr);
    planned_.clear();
    const auto add_region = [&](Planned::What what, std::size_t i, std::vector<std::byte>& arena) {
        const Region& region = regions_[i];
        const bool is_ahead = ahead != nullptr && what == Planned::What::kAhead;
        auto& to = is_ahead ? ahead->ranges : ranges;
        to.push_back({region.begin, std::span(arena).subspan(region.offset, distance(region.begin, region.end))});
        planned_.push_back({what, i});
        if (ahead == nullptr || i >= first_single_) return;
        auto& levels = is_ahead ? ahead->levels : ahead->planned_levels;
        levels.resize(to.size());
        levels.back() = {thread_state_, i};
    };
    // Leaves live shortest: they are copied closest to the pointer.
    order_.clear();
    const bool singles_first = generator_leaves_ > 0.5F;
    const auto order_singles = [&] {
        for (std::size_t i = first_single_; i < regions_.size(); ++i) order_.push_back(i);
    };
    if (singles_first) order_singles();
    for (std::size_t i = first_ahead_; i-- > 0;) order_.push_back(i);
    if (!singles_first) order_singles();
    for (std::size_t i = order_.size(); copies == Copies::kAround && i > 0; --i) add_region(Planned::What::kOther, order_[i - 1], other_);
    plan_pointers(ranges, false, with_c_stack);
    for (const std::size_t i : order_) add_region(Planned::What::kFrames, i, frames_);
    if (copies == Copies::kTwo) {
        plan_pointers(ranges, true, with_c_stack);
        for (const std::size_t i : order_) add_region(Planned::What::kOther, i, other_);
    }
    for (std::size_t i = first_ahead_; i < first_single_; ++i) add_region(Planned::What::kAhead, i, frames_);
}

// The pointers of the cframes that were met lately, as far as they lie near the last one.
void ThreadReader::plan_cells() {
    std::erase_if(cframes_, [&](const SeenCframe& seen) { return sample_ - seen.last_used > kForgetCframe; });
    if (cframes_.empty()) {
        pointers_.cells.clear();
        return;
    }
    Address begin = cframes_.front().address;
    Address end = begin;
    for (const SeenCframe& seen : cframes_) {
        if (raw(seen.address) < raw(begin) && distance(seen.address, end) <= kGapBytes) begin = seen.address;
        if (raw(seen.address) > raw(end) && distance(begin, seen.address) <= kGapBytes) end = seen.address;
    }
    cells_begin_ = begin + at(layout_.cframe.current_frame);
    for (Pointers* pointers : {&pointers_, &second_}) pointers->cells.resize(distance(begin, end) + 8);
}

void ThreadReader::plan_pointers(std::vector<ReadRange>& ranges, bool second, bool with_c_stack) {
    Pointers& pointers = second ? second_ : pointers_;
    ranges.push_back({thread_state_, pointers.thread});
    planned_.push_back({second ? Planned::What::kSecondThread : Planned::What::kThread, 0});
    if (layout_.frame_root != FrameRoot::kThreadCframe || with_c_stack) return;
    if (!second) plan_cells();
    if (pointers_.cells.empty()) return;
    ranges.push_back({cells_begin_, pointers.cells});
    planned_.push_back({second ? Planned::What::kSecondCells : Planned::What::kCells, 0});
}

void ThreadReader::note_filled(std::span<const std::uint8_t> filled) {
    for (Pointers* pointers : {&pointers_, &second_}) pointers->has_thread = pointers->has_cells = false;
    for (std::size_t i = 0; i < planned_.size(); ++i) {
        const bool ok = i < filled.size() && filled[i] != 0;
        switch (planned_[i].what) {
            case Planned::What::kOther:
                regions_[planned_[i].region].is_in_other = ok;
                break;
            case Planned::What::kThread:
                pointers_.has_thread = ok;
                break;
            case Planned::What::kCells:
                pointers_.has_cells = ok;
                break;
            case Planned::What::kSecondThread:
                second_.has_thread = ok;
                break;
            case Planned::What::kSecondCells:
                second_.has_cells = ok;
                break;
            case Planned::What::kFrames:
            case Planned::What::kAhead:
                regions_[planned_[i].region].is_read = ok;
                break;
        }
    }
    find_first_gone();
}

void ThreadReader::find_first_gone() {
    first_gone_ = 0;
    while (first_gone_ < first_single_ && regions_[first_gone_].is_read) ++first_gone_;
}

// A frame that could not be read is gone, and would end the next read early, too.
void ThreadReader::forget_unreadable() {
    for (std::size_t i = first_single_; i < regions_.size(); ++i) {
        const Region& region = regions_[i];
        if (region.is_read) continue;
        std::erase_if(single_frames_, [&](const SingleFrame& single) {
            return is_within(single.address + shape_.begin(), region.begin, region.end);
        });
    }
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

// The region that was planned for a chunk; first_single_ where there is none.
std::size_t ThreadReader::region_of(std::size_t chunk) const {
    const Address address = data_stack_[chunk].address;
    if (chunk < first_single_ && regions_[chunk].begin == address) return chunk;
    std::size_t i = 0;
    while (i < first_single_ && regions_[i].begin != address) ++i;
    return i;
}

// As it was read behind the pointer, with what else was planned of that chunk, or just now.
const std::byte* ThreadReader::copied_header(std::size_t chunk) const {
    const std::size_t i = region_of(chunk);
    if (i < first_single_ && regions_[i].is_read) return frames_.data() + regions_[i].offset;
    for (const std::size_t extra : extra_chunks_) {
        const Region& region = extra_regions_[extra];
        if (region.is_read && region.begin == data_stack_[chunk].address) return extra_.data() + region.offset;
    }
    return nullptr;
}

// Going down from a known chunk: the first whose link was copied and leads to another chunk than the one below it, or for
// the lowest one to any; kUnbroken where there is none. Nothing where one was not read because others are gone: then its
// link says nothing.
std::optional<std::size_t> ThreadReader::first_broken_link(std::size_t chunk) const {
    for (std::size_t i = chunk + 1; i-- > 0;) {
        const std::byte* header = copied_header(i);
        if (header == nullptr && !has_read_untried_ && !was_gone(i) && region_of(i) < first_single_) return std::nullopt;
        const Address below = i == 0 ? kNullAddress : data_stack_[i - 1].address;
        if (header != nullptr && data_stack_.parse(header).previous != below) return i;
    }
    return kUnbroken;
}

// A planned chunk turned out to be gone, and those above it were not read. They are in use all the same where chunks have
// come back in another order: once more without it, `first` first of all.
void ThreadReader::read_untried_chunks(Memory& memory, std::size_t first) {
    has_read_untried_ = true;
    const std::size_t begin = extra_regions_.size();
    const auto add = [&](const Region& planned) {
        if (extra_.size() <= kMaxCopyBytes) add_extra_chunk(planned.begin, planned.end);
    };
    const std::size_t wanted = region_of(first);
    if (wanted < first_single_ && !regions_[wanted].is_read) add(regions_[wanted]);
    for (std::size_t i = first_gone_ + 1; i < first_single_; ++i) {
        if (i != wanted && !regions_[i].is_read) add(regions_[i]);
    }
    read_extra(memory, begin);
}

// Room for more of a chunk; it is not read yet.
void ThreadReader::add_extra_chunk(Address begin, Address end) {
    Region region;
    region.begin = begin;
    region.end = end;
    region.offset = extra_.size();
    extra_.resize(region.offset + distance(begin, end));
    extra_chunks_.push_back(extra_regions_.size());
    extra_regions_.push_back(region);
}

// One call for the extra regions from this one on.
void ThreadReader::read_extra(Memory& memory, std::size_t first) {
    ++misses_;
    missing_.clear();
    for (std::size_t i = first; i < extra_regions_.size(); ++i) {
        const Region& region = extra_regions_[i];
        missing_.push_back({region.begin, std::span(extra_).subspan(region.offset, distance(region.begin, region.end))});
    }
    const std::size_t complete = memory.read(missing_).complete;
    for (std::size_t i = 0; i < complete; ++i) extra_regions_[first + i].is_read = true;
}

// A chunk that is not known, in one call: its header, and its frames if it is as large as chunks mostly are. The header, or
// nullptr.
const std::byte* ThreadReader::read_chunk(Memory& memory, Address address) {
    ++misses_;
    Region region;
    region.begin = address;
    region.offset = extra_.size();
    extra_.resize(region.offset + (region.offset > kMaxCopyBytes ? DataStack::kHeaderBytes : kUsualChunkBytes));
    const auto bytes = std::span(extra_).subspan(region.offset);
    const auto header = bytes.first(DataStack::kHeaderBytes);
    const auto frames = bytes.subspan(header.size());
    const std::size_t complete = memory.read(std::array{ReadRange{address, header}, ReadRange{address + header.size(), frames}}).complete;
    if (complete == 0) {
        extra_.resize(region.offset);
        return nullptr;
    }
    region.is_read = true;
    region.end = address + (complete == 1 ? header.size() : bytes.size());
    extra_chunks_.push_back(extra_regions_.size());
    extra_regions_.push_back(region);
    return extra_.data() + region.offset;
}

// Which chunks are in use: from the thread state down by the links. Where these are known and were copied with the chunks,
// nothing is read.
void ThreadReader::follow_chunks(Memory& memory) {
    Address address = thread_pointer(layout_.thread.datastack_chunk);
    fresh_chunks_.clear();  // leaf first
    std::size_t kept = 0;
    std::size_t known_links = 0;
    while (address != kNullAddress && fresh_chunks_.size() < DataStack::kMaxChunks) {
        const auto known = data_stack_.find(address);
        const std::byte* header = nullptr;
        if (known) {
            auto broken = first_broken_link(*known);
            if (!broken) {
                read_untried_chunks(memory, *known);
                broken = first_broken_link(*known);
            }
            if (*broken == kUnbroken) {
                kept = *known + 1;
                break;
            }
            for (std::size_t i = *known + 1; i-- > *broken;) fresh_chunks_.push_back(data_stack_[i]);
            known_links += *known - *broken + 1;
            if (known_links > data_stack_.size()) break;  // links of two moments
            header = copied_header(*broken);
        } else {
            header = read_chunk(memory, address);
            if (header == nullptr) break;
            const DataStack::Header parsed = data_stack_.parse(header);
            std::optional<DataStack::Chunk> chunk = data_stack_.chunk_at(address, parsed);
            if (!chunk) break;
            chunk->used = std::min(parsed.top, distance(chunk->begin, chunk->end) / 8) * 8;
            fresh_chunks_.push_back(*chunk);
        }
        address = data_stack_.parse(header).previous;
        if (address == fresh_chunks_.front().address || address == fresh_chunks_.back().address) break;  // as above
    }
    if (fresh_chunks_.empty()) {
        data_stack_.use(kept);
    } else {
        std::reverse(fresh_chunks_.begin(), fresh_chunks_.end());
        data_stack_.replace(kept, fresh_chunks_);
    }
    for (std::size_t i = 0; i < data_stack_.in_use(); ++i) {
        const std::byte* header = copied_header(i);
        if (header != nullptr) {
            data_stack_.update(i, data_stack_.parse(header));
        } else {
            single_misses_ = kMaxSingleMisses;  // the stack has moved on: what stands there now is not worth a read for each frame
        }
    }
}

// 3.11 and 3.12 read the pointer to the leaf a little after the thread state: a chunk may have been begun in between.
void ThreadReader::notice_newer_chunk(Address leaf) {
    const std::size_t next = data_stack_.in_use();
    if (next == 0 || next >= data_stack_.size() || !is_within(leaf, data_stack_[next].begin, data_stack_[next].end)) return;
    const std::byte* header = copied_header(next);
    if (header != nullptr && data_stack_.parse(header).previous == data_stack_[next - 1].address) data_stack_.use(next + 1);
}

// Whether the read of this sample has found the chunk gone.
bool ThreadReader::was_gone(std::size_t chunk) const { return first_gone_ < first_single_ && region_of(chunk) == first_gone_; }

// Callers stand below: one call brings all of the stack that is missing from here on. A chunk that was gone just now would
// be of another moment if it were there again.
void ThreadReader::read_missing_chunks(Memory& memory, std::size_t chunk, Address address) {
    std::size_t lowest = chunk;
    while (lowest > 0 && chunk - lowest < kMaxChunksACall && copied_header(lowest - 1) == nullptr) --lowest;
    for (std::size_t i = lowest; i <= chunk; ++i) {
        if (was_gone(i)) return;
    }
    const std::size_t first = extra_regions_.size();
    for (std::size_t i = chunk + 1; i-- > lowest;) {
        const Address begin = data_stack_[i].address;
        const Address end = i == chunk ? address + shape_.begin() + shape_.bytes() : data_stack_[i].begin + data_stack_[i].used;
        if (extra_.size() + distance(begin, end) > 2 * kMaxCopyBytes) break;
        add_extra_chunk(begin, end);
    }
    read_extra(memory, first);
}

std::optional<std::size_t> ThreadReader::unread_chunk() const {
    for (std::size_t i = 0; i < data_stack_.in_use(); ++i) {
        if (was_gone(i)) return i;
    }
    return std::nullopt;
}

// Of the last chunk in use, up to the end of the frame that stands nearest to the leaf in it.
std::uint64_t ThreadReader::bytes_in_last_chunk() const {
    if (data_stack_.in_use() == 0) return 0;
    const DataStack::Chunk& last = data_stack_[data_stack_.in_use() - 1];
    const auto& frames = walk_.frames;
    for (std::size_t i = 0; i < frames.size() && i < kMaxCandidates; ++i) {  // above it are generators' alone
        if (!is_within(frames[i].address, last.begin, last.end)) continue;
        return distance(last.begin, frames[i].address) + shape_.begin() + shape_.bytes();
    }
    return 0;
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

// gi_frame_state, which stands right before the frame: above zero are the ended ones (FRAME_COMPLETED, FRAME_CLEARED of
// Include/internal/pycore_frame.h).
bool ThreadReader::had_ended(Address address) const {
    constexpr std::int8_t kMostStates = 8;
    if (head_bytes_ == 0) return false;
    const Address state = address - static_cast<std::uint64_t>(layout_.generator.frame - layout_.generator.frame_state);
    for (std::size_t i = first_single_; i < regions_.size(); ++i) {
        const Region& region = regions_[i];
        if (!region.is_in_other || !is_within(state, region.begin, region.end)) continue;
        const auto value = load<std::int8_t>(other_.data(), region.offset + distance(region.begin, state));
        return value > 0 && value < kMostStates;
    }
    return false;
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
    std::vector<ReadRange> ranges;
    for (std::size_t i = first; i < extra_regions_.size(); ++i) {
        ranges.push_back({extra_regions_[i].begin, std::span(extra_).subspan(extra_regions_[i].offset, shape_.bytes())});
    }
    const std::size_t complete = memory.read(ranges).complete;
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

ThreadReader::Status ThreadReader::take(Memory& memory, std::span<const std::uint8_t> filled, const CStackBytes& c_stack) {
    c_stack_ = c_stack;
    const Status status = take_copies(memory, filled);
    c_stack_ = {};
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
// read directly, is younger than both.
ThreadReader::Status ThreadReader::take_second_moment(Memory& memory) {
    copies_ = Copies::kAround;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
        Region& region = regions_[i];
        if (i < first_ahead_ || i >= first_single_) {
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
        notice_newer_chunk(leaf);
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
    if (walk_.end != WalkEnd::kRoot) {
        if (const auto below = leaf_of_previous_cframe()) {
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
