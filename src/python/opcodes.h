// SPDX-License-Identifier: Apache-2.0
//
// What an opcode says of a frame that stands on it: whether such a frame can have pushed the Python
// frame above it, whether it is about to leave, and where its inline cache names the function that it
// called. Numbers differ per minor version and come from tests/layouts/make_opcodes.
#pragma once

#include <array>
#include <cstdint>

namespace pyprof {

enum OpcodeClass : std::uint8_t {
    kCallsPython = 1,         // can have pushed a Python frame without going through C
    kCallsPythonStrict = 2,   // of those: proves a suspended caller (facts: only these proved no false edge)
    kReturns = 4,             // leaves its frame: return, yield, or making the generator
    kHasFunctionVersion = 8,  // its inline cache holds the called function's version
};

struct Opcodes {
    std::array<std::uint8_t, 256> classes{};  // OpcodeClass bits by the number in co_code_adaptive
    // From the instruction that the frame's instruction field points to, in bytes: to the opcode that
    // executes, and to the u32 function version where the opcode has kHasFunctionVersion.
    int opcode_offset = 0;
    int function_version_offset = 0;

    [[nodiscard]] bool is(std::uint8_t opcode, OpcodeClass what) const { return (classes[opcode] & what) != 0; }
};

// 3.11 to 3.15; nullptr for versions without inline calls.
[[nodiscard]] const Opcodes* opcodes_of(int major, int minor);

}  // namespace pyprof
