// SPDX-License-Identifier: Apache-2.0
//
// Reads _Py_DebugOffsets, the table of offsets with which a 3.13 or later interpreter describes itself
// at the start of _PyRuntime (CPython Include/internal/pycore_debug_offsets.h). It is foreign data: every
// value is checked against its struct before anything stands on it, and one bad value refuses them all.
#pragma once

#include <pyprof/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pyprof {

class DebugOffsets {
public:
    static constexpr std::size_t kMaxFields = 128;
    static constexpr std::int64_t kNotDescribed = -1;

    // Whether the table knows the fields of this version.
    static bool is_known(int major, int minor);

    // Checks cookie, version, length and each field. A version that is not in the table is an Error.
    static Result<DebugOffsets> parse(std::span<const std::byte> bytes);

    [[nodiscard]] std::uint32_t version_hex() const { return version_hex_; }
    [[nodiscard]] bool free_threaded() const { return free_threaded_; }

    // By the name "group.field" in CPython's own words; kNotDescribed where this version has no such field.
    [[nodiscard]] std::int64_t at(std::string_view name) const;

private:
    [[nodiscard]] std::string find_overlap() const;

    std::uint32_t version_hex_ = 0;
    bool free_threaded_ = false;
    std::array<std::int64_t, kMaxFields> values_{};  // in the order of the table in debug_offsets.cpp
};

}  // namespace pyprof
