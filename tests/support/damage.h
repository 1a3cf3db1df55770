// SPDX-License-Identifier: Apache-2.0
//
// What fuzz targets do to a small program in a FakeMemory: a change of five bytes says where (2, in words), what for
// (1) and which value (2). Words become small numbers, addresses within the same memory, or wild ones.
#pragma once

#include "support/fake_memory.h"

#include <cstdint>

namespace pyprof::test {

constexpr std::size_t kChangeBytes = 5;

inline void damage(FakeMemory& memory, Address base, const std::uint8_t* change, std::uint64_t words) {
    const std::uint64_t place = (change[0] | std::uint64_t{change[1]} << 8U) % words;
    const std::uint64_t value = change[3] | std::uint64_t{change[4]} << 8U;
    const Address to = base + place * 8;
    switch (change[2] % 4) {
        case 0:
            memory.put(to, value);
            return;
        case 1:
            memory.put(to, raw(base) + value % words * 8);
            return;
        case 2:
            memory.put(to, value << 48U | value << 16U);
            return;
        default:
            memory.put(to + change[4] % 8, change[3]);
            return;
    }
}

}  // namespace pyprof::test
