// SPDX-License-Identifier: Apache-2.0
//
// std::from_chars in its fixed form, behind a check for a leading digit: it would take "inf" and "-1".
#include "base/parse.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>

namespace pyprof {
namespace {

struct NumberAndUnit {
    double number = 0;
    std::string unit;  // lower case
};

std::optional<NumberAndUnit> split_unit(std::string_view text) {
    if (text.empty() || text.size() > 32 || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return {};
    NumberAndUnit split;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, split.number, std::chars_format::fixed);
    if (error != std::errc{} || *(rest - 1) == '.') return {};
    for (const char* at = rest; at != end; ++at) {
        split.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
    }
    return split;
}

std::optional<double> seconds_of(const NumberAndUnit& split) {
    if (split.unit == "ms") return split.number / 1000;
    if (split.unit.empty() || split.unit == "s") return split.number;
    if (split.unit == "m") return split.number * 60;
    if (split.unit == "h") return split.number * 3600;
    return {};
}

std::optional<double> hertz_of(const NumberAndUnit& split) {
    if (split.unit.empty() || split.unit == "hz") return split.number;
    if (split.unit == "k" || split.unit == "khz") return split.number * 1000;
    return {};
}

}  // namespace

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
    constexpr double kLongest = 365.0 * 24 * 3600;
    constexpr auto kHint = "write seconds as 30 or 1.5s, else 500ms, 2m or 1h";
    const auto split = split_unit(text);
    const auto seconds = split ? seconds_of(*split) : std::nullopt;
    if (!seconds) return fail(ExitCode::kUsage, fmt::format("'{}' is not a duration", text), kHint);
    const auto duration =
        *seconds > kLongest
            ? std::chrono::nanoseconds::max()
            : std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
    if (duration == std::chrono::nanoseconds::max()) {
        return fail(ExitCode::kUsage, fmt::format("a duration of '{}' is longer than a year", text),
                    "leave the duration out to go on until the program ends");
    }
    if (duration.count() <= 0) {
        return fail(ExitCode::kUsage, fmt::format("a duration of '{}' leaves no time for a sample", text),
                    kHint);
    }
    return duration;
}

Result<double> parse_rate(std::string_view text) {
    constexpr double kLowest = 0.001;
    constexpr double kHighest = 1e6;
    if (text == "max") return 0.0;
    const auto split = split_unit(text);
    const auto hertz = split ? hertz_of(*split) : std::nullopt;
    if (!hertz) {
        return fail(ExitCode::kUsage, fmt::format("'{}' is not a rate", text),
                    "write samples a second: 100, 2.5, 10k, 1khz, or max");
    }
    if (*hertz < kLowest || *hertz > kHighest) {
        return fail(ExitCode::kUsage, fmt::format("a rate of '{}' is out of range", text),
                    "a rate lies between 0.001 and 1000000 samples a second, or is max");
    }
    return *hertz;
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || rest != end) return {};
    return value;
}

}  // namespace pyprof
