// SPDX-License-Identifier: Apache-2.0
//
// Rows by the address that was looked up, so that each address of code is looked up in its file once. It
// holds what stacks meet, some thousand addresses, and starts anew when it has too many.
#pragma once

#include "native/unwind_row.h"

#include <pyprof/address.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyprof {

class RowCache {
public:
    struct Entry {
        Address lookup{};  // null: free
        std::uint32_t row = 0;
        std::uint32_t module = 0;
    };

    RowCache() { clear(); }
    void clear();

    // Null when the address is not known.
    [[nodiscard]] const Entry* find(Address lookup) const {
        for (std::size_t at = slot_of(lookup);; at = (at + 1) & (slots_.size() - 1)) {
            const Entry& entry = slots_[at];
            if (entry.lookup == lookup) return &entry;
            if (entry.lookup == kNullAddress) return nullptr;
        }
    }
    // `lookup` is not null and not known. The entry is valid until the next add() or clear().
    const Entry& add(Address lookup, std::uint32_t module, const UnwindRow& row);
    [[nodiscard]] const UnwindRow& row(const Entry& entry) const { return rows_[entry.row]; }
    [[nodiscard]] std::size_t size() const { return rows_.size(); }

private:
    static constexpr std::size_t kFirstSlots = 1 << 12;
    static constexpr std::size_t kMostRows = 1 << 15;

    // Fibonacci hashing: neighbouring addresses go far apart.
    [[nodiscard]] std::size_t slot_of(Address lookup) const {
        return static_cast<std::size_t>(raw(lookup) * 0x9e3779b97f4a7c15U >> shift_);
    }
    Entry& free_slot(Address lookup);
    void grow();

    std::vector<Entry> slots_;  // a power of two, at most half of them taken
    unsigned shift_ = 0;
    std::vector<UnwindRow> rows_;
};

}  // namespace pyprof
