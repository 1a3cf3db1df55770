// SPDX-License-Identifier: Apache-2.0
//
// Well-formed is what decode_utf8 takes: table 3-7 of the Unicode standard.
#include "profile/utf8.h"

#include "base/text.h"

namespace pyprof {
namespace {

// U+D800 to U+DFFF in the three-byte form: ED, A0 to BF, any continuation.
bool begins_with_surrogate(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    return text.size() >= 3 && byte(0) == 0xED && (byte(1) & 0xE0) == 0xA0 && (byte(2) & 0xC0) == 0x80;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = decode_utf8(text).length;
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string to_valid_utf8(std::string_view text) {
    constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = decode_utf8(text).length;
        result += length == 0 ? kReplacement : text.substr(0, length);
        const std::size_t ill_formed = begins_with_surrogate(text) ? 3 : 1;
        text.remove_prefix(length == 0 ? ill_formed : length);
    }
    return result;
}

}  // namespace pyprof
