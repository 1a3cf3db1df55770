// SPDX-License-Identifier: Apache-2.0
#include "native/row_cache.h"

#include <bit>
#include <utility>

namespace pyprof {

void RowCache::clear() {
    slots_.assign(kFirstSlots, Entry{});
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(kFirstSlots));
    rows_.clear();
}

RowCache::Entry& RowCache::free_slot(Address lookup) {
    std::size_t at = slot_of(lookup);
    while (slots_[at].lookup != kNullAddress) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
}

void RowCache::grow() {
    const std::vector<Entry> old = std::exchange(slots_, std::vector<Entry>(slots_.size() * 2));
    --shift_;
    for (const Entry& entry : old) {
        if (entry.lookup != kNullAddress) free_slot(entry.lookup) = entry;
    }
}

const RowCache::Entry& RowCache::add(Address lookup, std::uint32_t module, const UnwindRow& row) {
    if (rows_.size() >= kMostRows) clear();
    if ((rows_.size() + 1) * 2 > slots_.size()) grow();
    rows_.push_back(row);
    return free_slot(lookup) = Entry{lookup, static_cast<std::uint32_t>(rows_.size() - 1), module};
}

}  // namespace pyprof
