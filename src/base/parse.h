// SPDX-License-Identifier: Apache-2.0
//
// What people type on the command line, read strictly: no sign, no blanks, no exponent, nothing left
// over. Every refusal says which forms are understood.
#pragma once

#include <pyprof/error.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pyprof {

// "30", "30s", "2m", "1h", "500ms", "1.5s"; more than 0, at most 365 days.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// Samples a second: "100", "2.5", "10k", "100hz", "1khz" (either case), or "max", which is 0: as fast
// as can be. Else from 0.001 to 1,000,000.
Result<double> parse_rate(std::string_view text);

// A whole number in decimal and nothing else; empty when it does not fit.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

}  // namespace pyprof
