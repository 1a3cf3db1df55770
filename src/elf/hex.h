// SPDX-License-Identifier: Apache-2.0
//
// Bytes as lower-case hexadecimal, the way build-ids are written.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <span>
#include <string>

namespace pyprof {

inline std::string hex_of(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes)
        fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(byte));
    return text;
}

}  // namespace pyprof
