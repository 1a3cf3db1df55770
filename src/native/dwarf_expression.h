// SPDX-License-Identifier: Apache-2.0
//
// DWARF expressions as far as call frame information may use them (DWARF 5, 2.5 and 6.4.2): arithmetic over
// registers and words of the stack. Bounded in steps and depth; memory other than the copied stack is not
// read.
#pragma once

#include "native/stack_copy.h"

#include <cstdint>
#include <optional>
#include <span>

namespace pyprof {

// `first`, where given, lies on the expression's stack at the start: the CFA, for a register's rule.
std::optional<std::uint64_t> evaluate_expression(std::span<const std::byte> expression,
                                                 const RegisterSet& registers, const StackCopy& copy,
                                                 std::optional<std::uint64_t> first);

}  // namespace pyprof
