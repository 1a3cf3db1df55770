// SPDX-License-Identifier: Apache-2.0
#include "sample/data_stack.h"

#include <algorithm>
#include <utility>

namespace pyprof {

namespace {

// Bytes are nearly free up to a page (docs/how-it-works.md), a second call is not: read a little more of the chunk than
// the last samples used.
constexpr std::uint64_t kSlackBytes = 1'024;
constexpr std::uint64_t kMaxChunkBytes = 64U << 20;
constexpr std::uint64_t kForgetAfterSamples = 64;
constexpr float kKeptASample = 31.0F / 32;
constexpr float kLikely = 0.5F;
constexpr float kForgotten = 0.02F;
// A chunk that is in use, but was freed and begun anew with another size, can't be read as it was known.
constexpr std::uint32_t kMostUnread = 4;

}  // namespace

DataStack::Header DataStack::parse(const std::byte* header) const {
    return {Address{load<std::uint64_t>(header, at(layout_.previous))}, load<std::uint64_t>(header, at(layout_.size)),
            load<std::uint64_t>(header, at(layout_.top))};
}

std::optional<DataStack::Chunk> DataStack::chunk_at(Address address, const Header& header) const {
    if (header.size <= at(layout_.data) || header.size > kMaxChunkBytes) return std::nullopt;
    Chunk chunk;
    chunk.address = address;
    chunk.begin = address + at(layout_.data);
    chunk.end = address + header.size;
    chunk.presence = kLikely;
    return chunk;
}

std::optional<std::size_t> DataStack::find(Address address) const {
    // From the last one in use: there it nearly always is.
    for (std::size_t i = in_use_; i-- > 0;) {
        if (chunks_[i].address == address) return i;
    }
    for (std::size_t i = in_use_; i < chunks_.size(); ++i) {
        if (chunks_[i].address == address) return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> DataStack::holder_of(Address frame) const {
    for (std::size_t i = in_use_; i-- > 0;) {
        if (is_within(frame, chunks_[i].begin, chunks_[i].end)) return i;
    }
    return std::nullopt;
}

void DataStack::replace(std::size_t kept, const std::vector<Chunk>& above) {
    const auto is_above = [&](const Chunk& known) {
        return std::any_of(above.begin(), above.end(), [&](const Chunk& chunk) { return chunk.address == known.address; });
    };
    const auto rest = chunks_.begin() + static_cast<std::ptrdiff_t>(kept);
    chunks_.erase(std::remove_if(rest, chunks_.end(), is_above), chunks_.end());
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(kept), above.begin(), above.end());
    in_use_ = kept + above.size();
    if (chunks_.size() > kMaxChunks) chunks_.resize(std::max(in_use_, kMaxChunks));
}

void DataStack::update(std::size_t i, const Header& header) {
    Chunk& chunk = chunks_[i];
    if (const auto now = chunk_at(chunk.address, header)) chunk.end = now->end;
    const std::uint64_t most = distance(chunk.begin, chunk.end);
    if (i + 1 < in_use_) chunk.used = std::min(header.top, most / 8) * 8;
}

void DataStack::note_sample(std::uint64_t bytes, std::optional<std::size_t> unread) {
    const bool renews = ++samples_ % kForgetAfterSamples == 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        Chunk& chunk = chunks_[i];
        chunk.presence = chunk.presence * kKeptASample + (i < in_use_ ? 1 - kKeptASample : 0);
        if (i + 1 == in_use_) {
            chunk.recent = std::max(chunk.recent, std::min(bytes, distance(chunk.begin, chunk.end)));
            chunk.high = std::max(chunk.high, chunk.recent);
        }
        if (i < in_use_) chunk.unread = unread == i ? chunk.unread + 1 : 0;
        if (renews) chunk.high = std::exchange(chunk.recent, 0);
    }
    while (chunks_.size() > in_use_ && chunks_.back().presence < kForgotten) chunks_.pop_back();
    if (!unread || chunks_[*unread].unread < kMostUnread) return;
    chunks_.resize(*unread);
    in_use_ = *unread;
}

std::size_t DataStack::likely() const {
    return static_cast<std::size_t>(std::count_if(chunks_.begin(), chunks_.end(), [](const Chunk& chunk) { return chunk.presence >= kLikely; }));
}

std::uint64_t DataStack::expected_bytes(std::size_t i) const {
    const Chunk& chunk = chunks_[i];
    const bool is_last = i + 1 == chunks_.size();
    return std::min(is_last ? chunk.high + kSlackBytes : std::max(chunk.high, chunk.used), distance(chunk.begin, chunk.end));
}

}  // namespace pyprof
