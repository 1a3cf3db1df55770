// SPDX-License-Identifier: Apache-2.0
//
// What the next sample of a thread is likely to need, as ranges in the order in which they are to be read; and, after the
// read, which of them came. It reads nothing.
#include "sample/thread_reader.h"

#include <algorithm>

namespace pyprof {

namespace {

// Each planned range costs 0.3 us of every sample, a missed frame 1.4 us of one.
constexpr std::size_t kMaxSingleFrames = 64;
// What lies closer than this is read as one: so many bytes cost less than a range. No page lies between whole.
constexpr std::uint64_t kGapBytes = 2'048;
constexpr std::uint64_t kForgetCframe = 256;  // samples

}  // namespace

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
    std::size_t pointer_range = ReadLevel::kNoPointer;
    const auto add_pointers = [&](bool second) {
        pointer_range = ranges.size();
        plan_pointers(ranges, second, with_c_stack);
    };
    const auto add_region = [&](Planned::What what, std::size_t i, std::vector<std::byte>& arena) {
        const Region& region = regions_[i];
        const bool is_ahead = ahead != nullptr && what == Planned::What::kAhead;
        auto& to = is_ahead ? ahead->ranges : ranges;
        to.push_back({region.begin, std::span(arena).subspan(region.offset, distance(region.begin, region.end))});
        planned_.push_back({what, i});
        if (ahead == nullptr || i >= first_single_) return;
        auto& levels = is_ahead ? ahead->levels : ahead->planned_levels;
        levels.resize(to.size());
        levels.back() = {thread_state_, i, is_ahead ? ReadLevel::kNoPointer : pointer_range, at(layout_.thread.datastack_chunk)};
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
    add_pointers(false);
    for (const std::size_t i : order_) add_region(Planned::What::kFrames, i, frames_);
    if (copies == Copies::kTwo) {
        add_pointers(true);
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
                regions_[planned_[i].region].is_late = ok && filled[i] == kFilledLast;
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

}  // namespace pyprof
