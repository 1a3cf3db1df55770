// SPDX-License-Identifier: Apache-2.0
//
// set objects (CPython Include/cpython/setobject.h, the same since 3.8): after the header fill, used, mask and
// the table of {key, hash}. An empty entry has no key, one whose member was taken out a key with the hash -1.
#include "python/objects.h"

#include <array>

namespace pyprof {

std::optional<std::vector<Address>> read_set(Memory& memory, const Layout& layout, Address set,
                                             std::size_t max_members) {
    // fill, used, mask, table
    const auto fields = read_value<std::array<std::uint64_t, 4>>(memory, set + layout.object.header_size);
    if (!fields) return std::nullopt;
    const auto [fill, used, mask, table] = *fields;
    // The table is a power of two, and has room for twice to eight times its members (set_add_entry).
    constexpr std::uint64_t kMostSlots = std::uint64_t{1} << 24U;
    if (used > max_members || used > fill || fill > mask || mask >= kMostSlots || (mask & (mask + 1)) != 0)
        return std::nullopt;
    struct Entry {
        std::uint64_t key;
        std::int64_t hash;
    };
    std::vector<Entry> entries(static_cast<std::size_t>(mask + 1));
    if (!read_bytes(memory, Address{table}, std::as_writable_bytes(std::span(entries)))) return std::nullopt;
    std::vector<Address> members;
    members.reserve(static_cast<std::size_t>(used));
    for (const Entry& entry : entries) {
        if (entry.key != 0 && entry.hash != -1) members.push_back(Address{entry.key});
    }
    return members;
}

}  // namespace pyprof
