// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a target's memory that were seen, wherever they lay. What was not seen can't be read back; what
// was seen twice reads as it was last.
#pragma once

#include <pyprof/memory.h>

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace pyprof {

class PageStore {
public:
    // False when the store is full (1 GiB of pages); nothing is kept then.
    bool add(Address from, std::span<const std::byte> bytes);
    // Whole or not at all.
    [[nodiscard]] bool read(Address from, std::span<std::byte> to) const;

    // Each run of bytes within a page, in ascending order.
    void for_each_run(const std::function<void(Address from, std::span<const std::byte> bytes)>& visit) const;
    [[nodiscard]] std::size_t page_count() const { return pages_.size(); }

private:
    static constexpr std::uint64_t kPageSize = 4096;
    static constexpr std::size_t kMostPages = std::size_t{1} << 18;
    struct Page {
        std::array<std::byte, kPageSize> bytes{};
        std::bitset<kPageSize> is_known;
    };
    std::map<std::uint64_t, std::unique_ptr<Page>> pages_;  // by number
};

}  // namespace pyprof
