// SPDX-License-Identifier: Apache-2.0
//
// The rows by version, spread into tables of 256.
#include "python/opcodes.h"

namespace pyprof {

namespace {

struct Row {
    std::uint8_t number = 0;
    int classes = 0;
    std::uint8_t cache_units = 0;
};

#include "python/opcodes_rows.inc"

constexpr int kUnit = 2;  // bytes of a code unit

template <std::size_t kCount>
constexpr Opcodes spread(const Row (&rows)[kCount]) {
    Opcodes opcodes;
    for (const Row& row : rows) {
        opcodes.classes[row.number] = static_cast<std::uint8_t>(row.classes);
        opcodes.cache_units[row.number] = row.cache_units;
    }
    return opcodes;
}

// CALL's cache in 3.11: counter, func_version (two units), min_args; in 3.12 without the last.
constexpr Opcodes behind_cache(Opcodes opcodes, int call_cache_units, int units_behind_version) {
    opcodes.points_behind_cache = true;
    opcodes.opcode_offset = -kUnit * call_cache_units;
    opcodes.function_version_offset = -kUnit * (1 + units_behind_version);
    return opcodes;
}

// From 3.13 on: opcode, counter, func_version.
constexpr Opcodes at_call(Opcodes opcodes) {
    opcodes.function_version_offset = 2 * kUnit;
    return opcodes;
}

constexpr int kFirstMinor = 11;
constexpr Opcodes kTables[] = {
    behind_cache(spread(kRows3_11), 4, 1),
    behind_cache(spread(kRows3_12), 3, 0),
    at_call(spread(kRows3_13)),
    at_call(spread(kRows3_14)),
    at_call(spread(kRows3_15)),
};

}  // namespace

Opcodes::Waiting Opcodes::waiting_for(std::span<const std::byte> bytecode) const {
    Waiting waiting;
    const std::size_t most = points_behind_cache ? kMaxCacheUnits : 0;
    for (std::size_t units = 0; units <= most; ++units) {
        const std::size_t back = (units + 1) * kUnit;
        if (back > bytecode.size()) break;
        const auto opcode = std::to_integer<std::uint8_t>(bytecode[bytecode.size() - back]);
        if ((points_behind_cache && cache_units[opcode] != units) || !is(opcode, kCallsPython)) continue;
        (is(opcode, kResumesGenerator) ? waiting.in_generator : waiting.in_call) = true;
    }
    return waiting;
}

std::optional<std::uint8_t> Opcodes::waiting_opcode(std::span<const std::byte> bytecode) const {
    const std::size_t most = points_behind_cache ? kMaxCacheUnits : 0;
    for (std::size_t units = 0; units <= most; ++units) {
        const std::size_t back = (units + 1) * kUnit;
        if (back > bytecode.size()) break;
        const auto opcode = std::to_integer<std::uint8_t>(bytecode[bytecode.size() - back]);
        const bool fits = !points_behind_cache || cache_units[opcode] == units;
        if (fits && is(opcode, kCallsPython)) return opcode;
    }
    return std::nullopt;
}

const Opcodes* opcodes_of(int major, int minor) {
    const int index = minor - kFirstMinor;
    if (major != 3 || index < 0 || index >= static_cast<int>(std::size(kTables))) return nullptr;
    return &kTables[index];
}

}  // namespace pyprof
