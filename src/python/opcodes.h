// SPDX-License-Identifier: Apache-2.0
//
// What an opcode says of a frame that stands on it: whether such a frame can have pushed the Python
// frame above it, whether it is about to leave, and where its inline cache names the function that it
// called. Numbers differ per minor version; opcodes_rows.inc holds them, tests/layouts/make_opcodes
// writes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace pyprof {

enum OpcodeClass : std::uint8_t {
    kCallsPython = 1,         // can have pushed a Python frame without going through C
    kCallsPythonStrict = 2,   // of those: does nothing else, so a frame that waits there has pushed one
    kReturns = 4,             // leaves its frame: return, yield, or making the generator
    kHasFunctionVersion = 8,  // its inline cache holds the called function's version
    kResumesGenerator = 16,   // of kCallsPython: the frame above it is a generator's
};

struct Opcodes {
    static constexpr std::size_t kMaxCacheUnits = 9;

    std::array<std::uint8_t, 256> classes{};      // OpcodeClass bits by the number in co_code_adaptive
    std::array<std::uint8_t, 256> cache_units{};  // inline cache behind those with kCallsPython

    // A frame that waits in a call has its instruction field, up to 3.12, at the last unit of the call's
    // inline cache; from 3.13 on at the call itself. In bytes from there, for the CALL family: the opcode
    // and the u32 function version of those with kHasFunctionVersion.
    bool points_behind_cache = false;
    int opcode_offset = 0;
    int function_version_offset = 0;

    [[nodiscard]] bool is(std::uint8_t opcode, OpcodeClass what) const {
        return (classes[opcode] & what) != 0;
    }

    // What a frame can wait for that stands on the last two bytes of `bytecode`, which begins up to
    // kMaxCacheUnits units before. Up to 3.12 cache words can look like an opcode: then it may be either.
    struct Waiting {
        bool in_call = false;       // of a kind that pushes a frame onto the data stack
        bool in_generator = false;  // that it resumes
    };
    [[nodiscard]] Waiting waiting_for(std::span<const std::byte> bytecode) const;

    // The opcode of any family in which a frame waits. `bytecode` ends with the two bytes that the
    // instruction field points to and begins up to kMaxCacheUnits units before. Nothing when no call
    // stands there. Up to 3.12 cache words can look like an opcode: a hint, then, not a proof.
    [[nodiscard]] std::optional<std::uint8_t> waiting_opcode(std::span<const std::byte> bytecode) const;
};

// 3.11 to 3.15; nullptr for versions without inline calls.
[[nodiscard]] const Opcodes* opcodes_of(int major, int minor);

}  // namespace pyprof
