// SPDX-License-Identifier: Apache-2.0
//
// The registers of one thread at one moment, by the numbers that call frame information gives them (System V
// ABI, AMD64 supplement, "DWARF Register Number Mapping"). A register can be unknown: a blocked thread shows
// only two without a stop, and a call leaves nothing of those that its callee may use. What is unknown is
// never read as a number.
#pragma once

#include <pyprof/address.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace pyprof {

class RegisterSet {
public:
    static constexpr unsigned kRbx = 3;
    static constexpr unsigned kRbp = 6;
    static constexpr unsigned kRsp = 7;
    static constexpr unsigned kR12 = 12;
    static constexpr unsigned kReturnAddress = 16;  // of a frame: where it goes on, so the program counter
    static constexpr unsigned kCount = 17;

    static constexpr std::uint32_t bit(unsigned number) { return std::uint32_t{1} << number; }
    // What a called function has to give back as it found it.
    static constexpr std::uint32_t kKeptByCalls = 1U << kRbx | 1U << kRbp | 0xfU << kR12;  // to r15

    [[nodiscard]] bool knows(unsigned number) const { return number < kCount && (known_ & bit(number)) != 0; }
    // 0 where it is not known.
    [[nodiscard]] std::uint64_t value(unsigned number) const { return knows(number) ? values_[number] : 0; }
    void set(unsigned number, std::uint64_t value) {
        values_[number] = value;
        known_ |= bit(number);
    }
    void forget(unsigned number) { known_ &= ~bit(number); }
    void keep_only(std::uint32_t bits) { known_ &= bits; }

    [[nodiscard]] Address program_counter() const { return Address{value(kReturnAddress)}; }
    [[nodiscard]] Address stack_pointer() const { return Address{value(kRsp)}; }

private:
    std::array<std::uint64_t, kCount> values_{};
    std::uint32_t known_ = 0;
};

}  // namespace pyprof
