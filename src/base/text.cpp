// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as in RFC 3629; the list of bidirectional controls is Unicode's property Bidi_Control.
#include "base/text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace pyprof {
namespace {

bool is_unfit(char32_t point) {
    if (point < 0x20 || (point >= 0x7f && point <= 0x9f)) return true;
    if (point == 0x061c || point == 0x200e || point == 0x200f) return true;
    return (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

}  // namespace

Decoded decode_utf8(std::string_view text) {
    if (text.empty()) return {};
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
    char32_t point = first & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {};
        point = point << 6 | (byte(i) & 0x3f);
    }
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kSmallest[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return {};
    return {point, length};
}

std::string escape_control(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Decoded next = decode_utf8(text);
        const std::size_t length = next.length == 0 ? 1 : next.length;
        if (next.length == 0 || (length == 1 && is_unfit(next.code_point))) {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text[0]));
        } else if (is_unfit(next.code_point)) {
            fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}",
                           static_cast<std::uint32_t>(next.code_point));
        } else {
            out.append(text.substr(0, length));
        }
        text.remove_prefix(length);
    }
    return out;
}

std::string elide_middle(std::string_view text, std::size_t bytes) {
    constexpr std::string_view kEllipsis = "\xe2\x80\xa6";
    if (text.size() <= bytes) return std::string(text);
    const std::size_t kept = bytes > kEllipsis.size() ? bytes - kEllipsis.size() : 0;
    std::size_t head = kept / 2;
    std::size_t tail = text.size() - (kept - head);
    while (head > 0 && is_continuation(text[head])) --head;
    while (tail < text.size() && is_continuation(text[tail])) ++tail;
    return std::string(text.substr(0, head)).append(kEllipsis).append(text.substr(tail));
}

}  // namespace pyprof
