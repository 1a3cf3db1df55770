// SPDX-License-Identifier: Apache-2.0
//
// Attributes that a class keeps in slots (__slots__), which read_attribute() of objects.h does not see. As bounded
// and as wary as those readers.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <optional>
#include <string_view>

namespace pyprof {

// Where in its objects a class has the slot `name`; kAbsent when it has none of that name itself; nothing when it
// can't be read.
[[nodiscard]] std::optional<Offset> find_slot(Memory& memory, const Layout& layout, Address type, std::string_view name);

// The value in the slot `name` of the object's own class; kNullAddress when it has none of that name or it is not
// set; nothing when it can't be read.
[[nodiscard]] std::optional<Address> read_slot(Memory& memory, const Layout& layout, Address object,
                                               std::string_view name);

}  // namespace pyprof
