// SPDX-License-Identifier: Apache-2.0
//
// A row of call frame information: how, at one address of code, the caller's registers are had from those of
// the frame (DWARF 5, 6.4.1). Only what is written down for the row stands in it; a register that it does not
// name is as it was, or gone if a called function may use it.
#pragma once

#include <pyprof/registers.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pyprof {

struct RegisterRule {
    enum class Kind : std::uint8_t {
        kUndefined,     // gone; for the return address: there is no caller
        kSame,          // as it is
        kAtOffset,      // stands at CFA + value
        kIsOffset,      // is CFA + value
        kInRegister,    // is in register `value`
        kAtExpression,  // stands where the expression leads; `value` is its place in the section
        kIsExpression,  // is what the expression gives
    };
    Kind kind = Kind::kUndefined;
    std::uint8_t number = 0;  // of the register that it restores
    std::uint16_t size = 0;   // of the expression
    std::int32_t value = 0;

    friend bool operator==(const RegisterRule&, const RegisterRule&) = default;
};

struct UnwindRow {
    enum class Cfa : std::uint8_t {
        kNone,        // no rule is known
        kRegister,    // register + value
        kExpression,  // as in a rule
    };

    Cfa cfa = Cfa::kNone;
    std::uint8_t cfa_register = 0;
    bool is_signal_frame = false;  // its caller was interrupted, it did not call
    bool is_plain = false;         // every rule is at an offset from the CFA: nearly all rows
    std::uint8_t rule_count = 0;
    std::int32_t cfa_value = 0;
    std::uint16_t cfa_size = 0;
    const std::byte* section = nullptr;  // what expressions are parts of; lives as long as the table
    // Sorted by register. The stack pointer is the CFA unless a rule says else.
    std::array<RegisterRule, RegisterSet::kCount> rules;

    [[nodiscard]] std::span<const RegisterRule> all_rules() const { return {rules.data(), rule_count}; }
    [[nodiscard]] std::span<const std::byte> expression(std::int32_t at, std::uint16_t size) const {
        return {section + at, size};
    }
};

}  // namespace pyprof
