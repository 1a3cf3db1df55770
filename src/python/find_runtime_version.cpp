// SPDX-License-Identifier: Apache-2.0
//
// "3.N" in names; "3.N.M", perhaps with a level such as "rc2", followed by " (" in the text that
// Py_GetVersion composes (Python/getversion.c).
#include "python/find_runtime_version.h"

#include "base/base_name.h"

#include <algorithm>
#include <charconv>

namespace pyprof {
namespace {

// Takes a number of at most three digits off the front.
bool take_number(std::string_view& text, std::uint32_t& value) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 3) return false;
    std::from_chars(text.data(), text.data() + digits, value);
    text.remove_prefix(digits);
    return value < 256;
}

bool take(std::string_view& text, std::string_view expected) {
    if (!text.starts_with(expected)) return false;
    text.remove_prefix(expected.size());
    return true;
}

// "3.9" at the front; what follows stays in `text`.
std::uint32_t take_major_minor(std::string_view& text) {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    if (!take_number(text, major) || major < 2 || major > 3 || !take(text, ".") || !take_number(text, minor))
        return 0;
    return major << 24 | minor << 16;
}

// "a1", "b2", "rc3" or nothing, as the low byte of PY_VERSION_HEX.
std::uint32_t take_level(std::string_view& text) {
    const std::uint32_t level = take(text, "rc")  ? 0xc0
                                : take(text, "a") ? 0xa0
                                : take(text, "b") ? 0xb0
                                                  : 0xf0;
    std::uint32_t serial = 0;
    if (level != 0xf0 && (!take_number(text, serial) || serial > 15)) return 0;
    return level | serial;
}

}  // namespace

std::uint32_t version_of_file_name(std::string_view path) {
    std::string_view name = base_name(path);
    const std::size_t at = name.find("python");
    if (at == std::string_view::npos) return 0;
    name.remove_prefix(at + std::string_view("python").size());
    return take_major_minor(name);
}

std::uint32_t version_of_library_path(std::string_view path) {
    constexpr std::string_view kMark = "/lib/python";
    for (std::size_t at = path.find(kMark); at != std::string_view::npos; at = path.find(kMark, at + 1)) {
        std::string_view rest = path.substr(at + kMark.size());
        const std::uint32_t version = take_major_minor(rest);
        if (version != 0 && (rest.empty() || rest.front() == '/' || rest.front() == 't')) return version;
    }
    return 0;
}

std::uint32_t version_in_bytes(std::string_view bytes) {
    constexpr std::string_view kStart = "3.";
    for (std::size_t at = bytes.find(kStart); at != std::string_view::npos; at = bytes.find(kStart, at + 1)) {
        if (at > 0 && bytes[at - 1] != '\0') continue;
        std::string_view rest = bytes.substr(at);
        const std::uint32_t version = take_major_minor(rest);
        std::uint32_t micro = 0;
        if (version == 0 || !take(rest, ".") || !take_number(rest, micro)) continue;
        const std::uint32_t level = take_level(rest);
        if (level == 0) continue;
        take(rest, "+");  // built from a work tree
        if (take(rest, " (")) return version | micro << 8 | level;
    }
    return 0;
}

}  // namespace pyprof
