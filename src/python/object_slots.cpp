// SPDX-License-Identifier: Apache-2.0
//
// An attribute that a class keeps in a slot: tp_dict holds a member_descriptor of that name, whose PyMemberDef says
// where in the object the value stands (Include/descrobject.h; the same on 3.8 to 3.15).
#include "python/object_slots.h"

#include "python/object_kinds.h"
#include "python/objects.h"

#include <array>

namespace pyprof {

namespace {

constexpr std::uint64_t kMemberAfterHeader = 24;   // d_type, d_name, d_qualname, d_member
constexpr std::uint64_t kDictAfterBase = 8;        // tp_base, tp_dict
constexpr std::uint64_t kMostObjectBytes = 1U << 16;

bool can_be_object(const std::optional<Address>& address) {
    return address && pyprof::can_be_object(*address);
}

}  // namespace

std::optional<Offset> find_slot(Memory& memory, const Layout& layout, Address type, std::string_view name) {
    const auto size = read_value<std::uint64_t>(memory, type + at(layout.type.basic_size));
    const auto dict = read_pointer(memory, type + at(layout.type.base) + kDictAfterBase);
    if (!size || *size > kMostObjectBytes || !can_be_object(dict)) return std::nullopt;
    const auto descriptor = find_in_dict(memory, layout, *dict, name);
    if (!descriptor) return std::nullopt;
    if (!can_be_object(descriptor)) return kAbsent;
    const auto kind = read_type(memory, layout, *descriptor);
    if (!can_be_object(kind) || type_name(memory, layout, *kind) != "member_descriptor") return kAbsent;
    const auto member = read_pointer(memory, *descriptor + layout.object.header_size + kMemberAfterHeader);
    if (!member || raw(*member) < 4096) return std::nullopt;
    // name, type (an int), offset
    const auto fields = read_value<std::array<std::uint64_t, 3>>(memory, *member);
    if (!fields || (*fields)[2] % 8 != 0 || *size < 8 || (*fields)[2] > *size - 8) return std::nullopt;
    return static_cast<Offset>((*fields)[2]);
}

std::optional<Address> read_slot(Memory& memory, const Layout& layout, Address object, std::string_view name) {
    const auto type = read_type(memory, layout, object);
    if (!can_be_object(type)) return std::nullopt;
    const auto offset = find_slot(memory, layout, *type, name);
    if (!offset) return std::nullopt;
    return has(*offset) ? read_pointer(memory, object + at(*offset)) : kNullAddress;
}

}  // namespace pyprof
