// SPDX-License-Identifier: Apache-2.0
//
// What is known of the chunks of one thread's data stack (3.11 on): those that are in use, and above them those that
// were until lately. A chunk that is freed is unmapped, and the next one mostly comes to the same address. So a stack
// that grows back is read where it is expected, and not link by link. It reads nothing and trusts no address: a chunk
// above counts only when the thread state and the links that were copied with it lead there (sample/thread_reader.h).
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace pyprof {

class DataStack {
public:
    struct Header {
        Address previous{};
        std::uint64_t size = 0;
        std::uint64_t top = 0;  // words in use, as of when the chunk above was begun
    };
    struct Chunk {
        Address address{};
        Address begin{};  // of its frames
        Address end{};
        std::uint64_t used = 0;    // bytes of frames in it when a chunk was above it
        std::uint64_t high = 0;    // ... that recent samples needed while it was the last one
        std::uint64_t recent = 0;  // ... of them those since `high` was taken
        float presence = 1;        // share of recent samples in which it was in use
        std::uint32_t unread = 0;  // samples in a row in which it was in use and could not be read
    };

    explicit DataStack(const Layout::Chunk& layout) : layout_(layout) {}

    static constexpr std::size_t kHeaderBytes = 24;
    [[nodiscard]] Header parse(const std::byte* header) const;
    // Nothing where it claims a size that none can have.
    [[nodiscard]] std::optional<Chunk> chunk_at(Address address, const Header& header) const;

    // Root first: those in use, then those that were.
    [[nodiscard]] std::size_t size() const { return chunks_.size(); }
    [[nodiscard]] std::size_t in_use() const { return in_use_; }
    [[nodiscard]] const Chunk& operator[](std::size_t i) const { return chunks_[i]; }
    [[nodiscard]] std::optional<std::size_t> find(Address address) const;
    // Of those in use, the one that holds a frame at this address.
    [[nodiscard]] std::optional<std::size_t> holder_of(Address frame) const;

    // Chunks [0, count) are in use, and no others.
    void use(std::size_t count) { in_use_ = count; }
    // Above the lowest `kept` chunks now stand these, root first, and no others are in use.
    void replace(std::size_t kept, const std::vector<Chunk>& above);
    // What the chunk's header says by now.
    void update(std::size_t i, const Header& header);

    // A sample was taken, whose last frame on the data stack ends `bytes` behind the begin of the last chunk in use (0: it
    // has none there). `unread` is the lowest chunk in use that could not be read, if there was one.
    void note_sample(std::uint64_t bytes, std::optional<std::size_t> unread);
    // How many chunks from the root on at least every other sample finds in use.
    [[nodiscard]] std::size_t likely() const;
    // Bytes of frames that the next sample is likely to need of a chunk, if it is in use then.
    [[nodiscard]] std::uint64_t expected_bytes(std::size_t i) const;

    static constexpr std::size_t kMaxChunks = 65'536;

private:
    Layout::Chunk layout_;
    std::vector<Chunk> chunks_;
    std::size_t in_use_ = 0;
    std::uint64_t samples_ = 0;
};

}  // namespace pyprof
