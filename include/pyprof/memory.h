// SPDX-License-Identifier: Apache-2.0
//
// Memory is the only door to the target's bytes. A read is vectored: many ranges, one call, because a
// process_vm_readv costs about 1.4 us however little it copies and 0.3 us for each further range.
// The bytes are foreign: they may be torn, hostile or gone, and nothing here judges them.
#pragma once

#include <pyprof/address.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace pyprof {

struct ReadRange {
    Address from{};
    std::span<std::byte> to;
};

enum class ReadFault : std::uint8_t {
    kNone,
    kUnmapped,  // that range can't be read (EFAULT, or a short result)
    kGone,      // the process has ended (ESRCH)
    kDenied,    // no right to read it (EPERM)
};

// ranges[0 .. complete) hold the target's bytes; `fault` says why ranges[complete] does not. Ranges
// after a bad one are not read: process_vm_readv stops there. Whoever reads ranges that may vanish
// puts them last and resumes behind the bad one.
struct ReadOutcome {
    std::size_t complete = 0;
    ReadFault fault = ReadFault::kNone;
};

// What reading has cost so far. Both stay 0 where nothing is read from a process (snapshots, tests).
struct ReadCounters {
    std::uint64_t calls = 0;  // process_vm_readv
    std::uint64_t bytes = 0;
};

class Memory {
public:
    virtual ~Memory() = default;

    // Fills the ranges in their order: range k is copied before range k+1, each in ascending order of
    // addresses. An empty list is complete at once.
    [[nodiscard]] virtual ReadOutcome read(std::span<const ReadRange> ranges) = 0;

    [[nodiscard]] virtual ReadCounters counters() const { return {}; }
};

// Whole or not at all (the buffer may still be partly written on failure).
[[nodiscard]] inline bool read_bytes(Memory& memory, Address from, std::span<std::byte> to) {
    const ReadRange range{from, to};
    return memory.read({&range, 1}).complete == 1;
}

template <class T>
[[nodiscard]] std::optional<T> read_value(Memory& memory, Address from) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (!read_bytes(memory, from, std::as_writable_bytes(std::span<T, 1>(&value, 1)))) return std::nullopt;
    return value;
}

[[nodiscard]] inline std::optional<Address> read_pointer(Memory& memory, Address from) {
    const auto value = read_value<std::uint64_t>(memory, from);
    if (!value) return std::nullopt;
    return Address{*value};
}

// A field inside bytes that were copied before; the caller has checked that it lies within them.
template <class T>
[[nodiscard]] T load(const std::byte* bytes, std::size_t offset) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
}

}  // namespace pyprof
