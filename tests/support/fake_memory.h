// SPDX-License-Identifier: Apache-2.0
//
// A target's memory that tests write themselves: sparse pages, with faults on order. Writing maps the
// page; what was never written, or was unmapped, can't be read. It counts what is read.
#pragma once

#include <pyprof/memory.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace pyprof::test {

class FakeMemory final : public Memory {
public:
    static constexpr std::uint64_t kPageSize = 4096;

    [[nodiscard]] ReadOutcome read(std::span<const ReadRange> ranges) override;

    void write(Address to, std::span<const std::byte> bytes);
    template <class T>
    void put(Address to, const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        write(to, std::as_bytes(std::span<const T, 1>(&value, 1)));
    }
    // Maps the pages of the range, filled with zeros where they are new.
    void map(Address start, std::uint64_t size);
    // From now on no byte of the range can be read, until it is written again.
    void unmap(Address start, std::uint64_t size);

    // The read() call with this number (the next one is 1) fails at its first range, once.
    void fail_at(std::size_t read_number, ReadFault fault = ReadFault::kUnmapped);
    // Every read fails from now on: the process has ended.
    void end_process() { gone_ = true; }
    // Called before each range is copied: the target runs on between two ranges.
    std::function<void(FakeMemory& memory, const ReadRange& range)> before_range;
    // Called between two pieces of a range, where `piece_bytes` is set: it runs on within a range, too.
    std::function<void(FakeMemory& memory)> between_pieces;
    std::size_t piece_bytes = 0;

    [[nodiscard]] std::size_t reads() const { return reads_; }    // calls of read()
    [[nodiscard]] std::size_t ranges() const { return ranges_; }  // ranges asked for
    void reset_counts() { reads_ = ranges_ = 0; }

private:
    struct Page {
        std::vector<std::byte> bytes = std::vector<std::byte>(kPageSize);
    };
    struct Hole {
        std::uint64_t start = 0;
        std::uint64_t end = 0;
    };
    [[nodiscard]] bool copy_in_pieces(const ReadRange& range);
    [[nodiscard]] bool copy(Address from, std::span<std::byte> to) const;
    [[nodiscard]] bool is_in_hole(std::uint64_t start, std::uint64_t end) const;
    void close_holes(std::uint64_t start, std::uint64_t end);

    std::map<std::uint64_t, Page> pages_;  // by address / kPageSize
    std::vector<Hole> holes_;
    std::size_t reads_ = 0;
    std::size_t ranges_ = 0;
    std::optional<std::pair<std::size_t, ReadFault>> planned_fault_;
    bool gone_ = false;
};

}  // namespace pyprof::test
