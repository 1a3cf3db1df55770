// SPDX-License-Identifier: Apache-2.0
//
// Which chunks of its data stack a thread uses as of the sample, by the links that were copied with them; what the plan
// lacked of them is read at once.
#include "sample/thread_reader.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

// DATA_STACK_CHUNK_SIZE of Python/pystate.c.
constexpr std::uint64_t kUsualChunkBytes = 16U << 10;
constexpr std::size_t kUnbroken = SIZE_MAX;
constexpr std::size_t kMaxChunksACall = 1'000;

}  // namespace

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

// 3.11 and 3.12 read the pointer to the leaf a little after the thread state: a chunk may have been begun in between. While the
// target maps it, the read of the pointer waits; so it may have dozens of frames by then, and is read at once.
void ThreadReader::notice_newer_chunk(Memory& memory, Address leaf) {
    const std::size_t next = data_stack_.in_use();
    if (next == 0 || next >= data_stack_.size() || !is_within(leaf, data_stack_[next].begin, data_stack_[next].end)) return;
    if (copied_header(next) == nullptr && extra_.size() <= kMaxCopyBytes) {
        const std::size_t first = extra_regions_.size();
        add_extra_chunk(data_stack_[next].address, leaf + shape_.begin() + shape_.bytes());
        read_extra(memory, first);
    }
    const std::byte* header = copied_header(next);
    if (header == nullptr || data_stack_.parse(header).previous != data_stack_[next - 1].address) return;
    // The thread state says that it was not in use: an earlier copy of it is of another life, and proves nothing.
    if (const std::size_t i = region_of(next); is_other_earlier() && i < first_single_) regions_[i].is_in_other = false;
    data_stack_.use(next + 1);
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
        if (was_gone(i) && copied_header(i) == nullptr) return i;
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

}  // namespace pyprof
