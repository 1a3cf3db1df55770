// SPDX-License-Identifier: Apache-2.0
//
// Facts and figures of a recording in words, for titles. Everything comes back as plain text that each
// format escapes its own way; control bytes in it are already visible.
#pragma once

#include <pyprof/profile.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace pyprof {

std::string_view version();  // "0.1.0"

// The command as one would type it: arguments with blanks or odd bytes in single quotes.
std::string command_text(const ProfileFacts& facts);
// What all percentages are percentages of: "6,000 samples of running threads".
std::string base_text(const ResolvedProfile& profile);
// Samples of the busiest thread per second.
double reached_rate(const RunFigures& figures);
// "pid 7", "Python 3.12.1", "100 Hz asked, 99.8 reached", "30.0 s", "pyprof used 0.4% of a processor", as far as known.
std::string setting_text(const ResolvedProfile& profile);
// "6,000 samples, 12 refused, 3 truncated", and what else went wrong or was done to the program.
std::string count_text(const ResolvedProfile& profile);

std::string with_commas(std::uint64_t number);                    // "12,345"
std::string samples_text(std::uint64_t number);                   // "1 sample", "12,345 samples"
std::string share_text(std::uint64_t part, std::uint64_t whole);  // "12.34%"; of nothing "0%"

}  // namespace pyprof
