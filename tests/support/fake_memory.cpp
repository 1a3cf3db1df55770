// SPDX-License-Identifier: Apache-2.0
//
// Pages in a map; a hole is a list of byte ranges on top, so that an object can end where a page does not.
#include "support/fake_memory.h"

#include <algorithm>
#include <cstring>

namespace pyprof::test {

namespace {

// Calls `each(page number, offset in it, position in the range, length)`; false from it ends the walk.
template <class Each>
bool for_each_page(Address start, std::size_t size, Each each) {
    std::size_t done = 0;
    while (done < size) {
        const std::uint64_t at = raw(start) + done;
        const std::size_t offset = at % FakeMemory::kPageSize;
        const std::size_t length = std::min<std::size_t>(FakeMemory::kPageSize - offset, size - done);
        if (!each(at / FakeMemory::kPageSize, offset, done, length)) return false;
        done += length;
    }
    return true;
}

}  // namespace

ReadOutcome FakeMemory::read(std::span<const ReadRange> ranges) {
    ++reads_;
    ranges_ += ranges.size();
    if (planned_fault_ && --planned_fault_->first == 0) {
        const ReadFault fault = planned_fault_->second;
        planned_fault_.reset();
        return {0, fault};
    }
    ReadOutcome outcome;
    for (const ReadRange& range : ranges) {
        if (before_range) before_range(*this, range);
        if (gone_) return {outcome.complete, ReadFault::kGone};
        if (!copy_in_pieces(range)) return {outcome.complete, ReadFault::kUnmapped};
        ++outcome.complete;
    }
    return outcome;
}

bool FakeMemory::copy_in_pieces(const ReadRange& range) {
    if (piece_bytes == 0) return copy(range.from, range.to);
    for (std::size_t done = 0; done < range.to.size(); done += piece_bytes) {
        if (done > 0 && between_pieces) between_pieces(*this);
        const auto piece = range.to.subspan(done, std::min(piece_bytes, range.to.size() - done));
        if (!copy(range.from + done, piece)) return false;
    }
    return true;
}

bool FakeMemory::copy(Address from, std::span<std::byte> to) const {
    if (is_in_hole(raw(from), raw(from) + to.size())) return false;
    return for_each_page(from, to.size(), [&](std::uint64_t number, std::size_t offset, std::size_t at, std::size_t length) {
        const auto page = pages_.find(number);
        if (page == pages_.end()) return false;
        std::memcpy(to.data() + at, page->second.bytes.data() + offset, length);
        return true;
    });
}

void FakeMemory::write(Address to, std::span<const std::byte> bytes) {
    close_holes(raw(to), raw(to) + bytes.size());
    for_each_page(to, bytes.size(), [&](std::uint64_t number, std::size_t offset, std::size_t at, std::size_t length) {
        std::memcpy(pages_[number].bytes.data() + offset, bytes.data() + at, length);
        return true;
    });
}

void FakeMemory::map(Address start, std::uint64_t size) {
    close_holes(raw(start), raw(start) + size);
    for_each_page(start, size, [&](std::uint64_t number, std::size_t, std::size_t, std::size_t) {
        pages_.try_emplace(number);
        return true;
    });
}

void FakeMemory::unmap(Address start, std::uint64_t size) { holes_.push_back({raw(start), raw(start) + size}); }

void FakeMemory::fail_at(std::size_t read_number, ReadFault fault) { planned_fault_ = {{read_number, fault}}; }

bool FakeMemory::is_in_hole(std::uint64_t start, std::uint64_t end) const {
    return std::any_of(holes_.begin(), holes_.end(),
                       [&](const Hole& hole) { return start < hole.end && hole.start < end; });
}

void FakeMemory::close_holes(std::uint64_t start, std::uint64_t end) {
    std::vector<Hole> left;
    for (const Hole& hole : holes_) {
        if (hole.end <= start || hole.start >= end) {
            left.push_back(hole);
            continue;
        }
        if (hole.start < start) left.push_back({hole.start, start});
        if (hole.end > end) left.push_back({end, hole.end});
    }
    holes_ = std::move(left);
}

}  // namespace pyprof::test
