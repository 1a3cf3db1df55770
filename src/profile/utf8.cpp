// SPDX-License-Identifier: Apache-2.0
//
// Validation follows table 3-7 of the Unicode standard ("well-formed UTF-8 byte sequences"): the second
// byte's range depends on the first, which is what keeps out overlong forms, surrogates and what lies
// above U+10FFFF. No byte outside `text` is ever looked at.
#include "profile/utf8.h"

#include <algorithm>

namespace pyprof {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Form {
    std::size_t length;  // 0: no sequence begins with that byte
    unsigned char second_lowest;
    unsigned char second_highest;
};

constexpr Form form_of(unsigned char first) {
    if (first < 0x80) return {1, 0, 0};
    if (first < 0xC2) return {0, 0, 0};
    if (first < 0xE0) return {2, 0x80, 0xBF};
    if (first == 0xE0) return {3, 0xA0, 0xBF};
    if (first == 0xED) return {3, 0x80, 0x9F};
    if (first < 0xF0) return {3, 0x80, 0xBF};
    if (first == 0xF0) return {4, 0x90, 0xBF};
    if (first < 0xF4) return {4, 0x80, 0xBF};
    if (first == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

unsigned char byte_at(std::string_view text, std::size_t index) {
    return static_cast<unsigned char>(text[index]);
}

bool is_continuation(unsigned char byte) {
    return (byte & 0xC0) == 0x80;
}

// How many bytes from the start agree with the form of the first one; the whole form when well-formed.
std::size_t agreeing_bytes(std::string_view text, const Form& form) {
    if (form.length == 0) return 0;
    const std::size_t limit = std::min(form.length, text.size());
    std::size_t count = 1;
    while (count < limit) {
        const unsigned char byte = byte_at(text, count);
        const bool fits =
            count == 1 ? byte >= form.second_lowest && byte <= form.second_highest : is_continuation(byte);
        if (!fits) break;
        ++count;
    }
    return count;
}

bool begins_with_surrogate(std::string_view text) {
    return text.size() >= 3 && byte_at(text, 0) == 0xED && (byte_at(text, 1) & 0xE0) == 0xA0 &&
           is_continuation(byte_at(text, 2));
}

}  // namespace

std::size_t sequence_length(std::string_view text) {
    if (text.empty()) return 0;
    const Form form = form_of(byte_at(text, 0));
    return agreeing_bytes(text, form) == form.length ? form.length : 0;
}

bool is_valid_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string to_valid_utf8(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Form form = form_of(byte_at(text, 0));
        const std::size_t agreeing = agreeing_bytes(text, form);
        if (form.length != 0 && agreeing == form.length) {
            result += text.substr(0, agreeing);
            text.remove_prefix(agreeing);
            continue;
        }
        result += kReplacement;
        text.remove_prefix(begins_with_surrogate(text) ? 3 : std::max<std::size_t>(agreeing, 1));
    }
    return result;
}

}  // namespace pyprof
