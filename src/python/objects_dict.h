// SPDX-License-Identifier: Apache-2.0
//
// The table behind dicts and instance attributes (PyDictKeysObject), as far as a reader from outside
// needs it: its entries in order. Hashes are not used; the target's are salted.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pyprof {

struct KeysTable {
    struct Entry {
        Address key{};    // null: deleted
        Address value{};  // null: deleted, or held in an array of values elsewhere (split tables)
    };
    std::vector<Entry> entries;
};

// Nothing where the table can't be read, makes no sense or has more than `max_entries`.
[[nodiscard]] std::optional<KeysTable> read_keys_table(Memory& memory, const Layout& layout, Address keys,
                                                       std::size_t max_entries);

// The place of a str key of ASCII characters among the entries; nothing when it is not there.
[[nodiscard]] std::optional<std::size_t> find_key(Memory& memory, const Layout& layout,
                                                  const KeysTable& table, std::string_view name);

}  // namespace pyprof
