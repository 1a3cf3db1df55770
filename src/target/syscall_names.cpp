// SPDX-License-Identifier: Apache-2.0
#include "target/syscall_names.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace pyprof {

namespace {

// Made by CMake from the macros of <sys/syscall.h>: {number, "name"}, sorted by number.
constexpr std::pair<std::int64_t, std::string_view> kNames[] = {
#include "syscall_names.inc"
};

}  // namespace

std::string syscall_name(std::int64_t number) {
    const auto* found =
        std::lower_bound(std::begin(kNames), std::end(kNames), number,
                         [](const auto& entry, std::int64_t wanted) { return entry.first < wanted; });
    if (found != std::end(kNames) && found->first == number) return std::string(found->second);
    return "syscall " + std::to_string(number);
}

}  // namespace pyprof
