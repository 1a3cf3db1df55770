// SPDX-License-Identifier: Apache-2.0
//
// f_localsplus: from 3.11 on in the order of co_localsplusnames; before it begins with co_varnames, and what
// functions within share stands in cells behind them.
#include "python/frame_locals.h"

#include "python/object_kinds.h"
#include "python/objects.h"

#include <algorithm>

namespace pyprof {

namespace {

constexpr std::size_t kMostNameCharacters = 256;

std::size_t count_locals(Memory& memory, const Layout& layout, Address code) {
    if (has(layout.code.nlocalsplus)) {
        const auto count = read_value<std::int32_t>(memory, code + at(layout.code.nlocalsplus));
        return count && *count > 0 ? static_cast<std::size_t>(*count) : 0;
    }
    const auto names = read_pointer(memory, code + at(layout.code.local_names));
    if (!names || !can_be_object(*names)) return 0;
    const auto count = read_value<std::uint64_t>(memory, *names + at(layout.tuple.size));
    return count ? static_cast<std::size_t>(std::min<std::uint64_t>(*count, kMostLocals)) : 0;
}

}  // namespace

void read_locals(Memory& memory, const Layout& layout, const RawFrame& frame, std::vector<Address>& objects) {
    objects.clear();
    if (!has(layout.frame.localsplus) || !can_be_object(frame.code) || !can_be_object(frame.address)) return;
    const std::size_t count = std::min(count_locals(memory, layout, frame.code), kMostLocals);
    objects.resize(count);
    const Address from = frame.address + at(layout.frame.localsplus);
    if (count == 0 || !read_bytes(memory, from, std::as_writable_bytes(std::span(objects)))) {
        objects.clear();
        return;
    }
    for (Address& object : objects) object = Address{raw(object) & layout.pointer_mask};
}

std::optional<std::size_t> find_local(Memory& memory, const Layout& layout, Address code, std::string_view name) {
    if (!has(layout.code.local_names) || !can_be_object(code)) return std::nullopt;
    const auto tuple = read_pointer(memory, code + at(layout.code.local_names));
    if (!tuple || !can_be_object(*tuple)) return std::nullopt;
    const auto names = read_tuple(memory, layout, *tuple, kMostLocals);
    if (!names) return std::nullopt;
    for (std::size_t i = 0; i < names->size(); ++i) {
        if (!can_be_object((*names)[i])) return std::nullopt;
        if (read_unicode(memory, layout, (*names)[i], kMostNameCharacters) == name) return i;
    }
    return kMostLocals;
}

std::optional<Address> read_local(Memory& memory, const Layout& layout, const RawFrame& frame, std::string_view name) {
    const auto index = find_local(memory, layout, frame.code, name);
    if (!index) return std::nullopt;
    if (*index >= kMostLocals) return kNullAddress;
    const auto held = read_pointer(memory, frame.address + at(layout.frame.localsplus) + *index * 8);
    if (!held) return std::nullopt;
    return Address{raw(*held) & layout.pointer_mask};
}

}  // namespace pyprof
