// SPDX-License-Identifier: Apache-2.0
//
// Addresses of three different worlds are three different types. `Address` is a place in the target's
// memory, `FileAddress` a virtual address inside an ELF file before it is loaded; a place in our own
// memory stays a pointer. Nothing here turns one into another: only a load bias (elf/) does.
#pragma once

#include <cstdint>

namespace pyprof {

enum class Address : std::uint64_t {};
enum class FileAddress : std::uint64_t {};

constexpr Address kNullAddress{0};

constexpr std::uint64_t raw(Address address) { return static_cast<std::uint64_t>(address); }
constexpr std::uint64_t raw(FileAddress address) { return static_cast<std::uint64_t>(address); }

// Wraps around like the hardware does; whether the result can be read is the reader's question.
constexpr Address operator+(Address base, std::uint64_t bytes) { return Address{raw(base) + bytes}; }
constexpr Address operator-(Address base, std::uint64_t bytes) { return Address{raw(base) - bytes}; }

// Bytes from `from` to `to`; wraps when `to` lies below.
constexpr std::uint64_t distance(Address from, Address to) { return raw(to) - raw(from); }

constexpr bool is_within(Address address, Address start, Address end) {
    return raw(address) >= raw(start) && raw(address) < raw(end);
}

// Whether all of [from, from + bytes) lies there; what wraps around does not.
constexpr bool is_range_within(Address from, std::uint64_t bytes, Address start, Address end) {
    return raw(from) >= raw(start) && raw(from) <= raw(end) && bytes <= distance(from, end);
}

}  // namespace pyprof
