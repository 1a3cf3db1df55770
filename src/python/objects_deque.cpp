// SPDX-License-Identifier: Apache-2.0
//
// Modules/_collectionsmodule.c, the same on 3.8 to 3.15: a deque is a list of blocks of 64 items, {leftlink, items,
// rightlink}, and begins somewhere in the first one.
#include "python/object_kinds.h"
#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kBlockItems = 64;  // BLOCKLEN

}  // namespace

std::vector<Address> read_deque(Memory& memory, const Layout& layout, Address deque, std::size_t max_items) {
    std::vector<Address> items;
    // ob_size, leftblock, rightblock, leftindex
    const auto fields = read_value<std::array<std::uint64_t, 4>>(memory, deque + layout.object.header_size);
    if (!fields) return items;
    const std::uint64_t size = std::min<std::uint64_t>((*fields)[0], max_items);
    Address block{(*fields)[1]};
    std::uint64_t index = (*fields)[3];
    for (std::uint64_t i = 0; i < size && index < kBlockItems && can_be_object(block); ++i) {
        const auto item = read_pointer(memory, block + 8 + index * 8);
        if (item) items.push_back(*item);
        if (++index < kBlockItems) continue;
        index = 0;
        block = read_pointer(memory, block + 8 + kBlockItems * 8).value_or(kNullAddress);
    }
    return items;
}

}  // namespace pyprof
