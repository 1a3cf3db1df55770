// SPDX-License-Identifier: Apache-2.0
//
// Hashes of small integer keys. tsl::robin_map takes the low bits of the hash, and ids are consecutive,
// so each id is spread over all 64 bits first. Not meant to resist an adversary.
#pragma once

#include <pyprof/frame.h>

#include <cstddef>
#include <cstdint>

namespace pyprof {

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
constexpr std::uint64_t mix(std::uint64_t value) {
    value ^= value >> 30;
    value *= 0xBF58'476D'1CE4'E5B9;
    value ^= value >> 27;
    value *= 0x94D0'49BB'1331'11EB;
    return value ^ (value >> 31);
}

constexpr std::uint64_t pair(std::uint32_t high, std::uint32_t low) {
    return std::uint64_t{high} << 32 | low;
}

struct MixHash {
    std::size_t operator()(std::uint64_t value) const { return mix(value); }
};

struct FrameHash {
    std::size_t operator()(const Frame& frame) const {
        const auto kind_and_line =
            pair(static_cast<std::uint32_t>(frame.kind), static_cast<std::uint32_t>(frame.line));
        return mix(pair(raw(frame.name), raw(frame.file)) + mix(kind_and_line));
    }
};

}  // namespace pyprof
