// SPDX-License-Identifier: Apache-2.0
//
// What a short stop takes home: the registers of a thread and the used part of its stack. All unwinding works
// on this copy while the thread runs on. One object is used again and again and allocates nothing once its
// buffer has grown.
#pragma once

#include <pyprof/memory.h>
#include <pyprof/registers.h>

#include <optional>
#include <span>
#include <vector>

namespace pyprof {

// Below the stack pointer a function that calls nothing may keep 128 bytes (System V ABI, AMD64, 3.2.2), and
// what has just been popped still stands there.
constexpr std::uint64_t kRedZoneBytes = 128;

struct StackCopy {
    RegisterSet registers;
    Address begin{};  // of bytes[0]: the stack pointer less the red zone
    std::vector<std::byte> bytes;

    [[nodiscard]] Address end() const { return begin + bytes.size(); }
    [[nodiscard]] bool holds(Address address, std::uint64_t size) const {
        const std::uint64_t at = distance(begin, address);
        return at <= bytes.size() && size <= bytes.size() - at;
    }
    [[nodiscard]] std::optional<std::uint64_t> word_at(Address address) const {
        if (!holds(address, sizeof(std::uint64_t))) return std::nullopt;
        return load<std::uint64_t>(bytes.data(), distance(begin, address));
    }
};

}  // namespace pyprof
