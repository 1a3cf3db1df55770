// SPDX-License-Identifier: Apache-2.0
//
// Widths are those of Unicode as utf8proc tells them. What is ambiguous (East Asian Width A) takes one column, as
// terminals have it outside of CJK locales.
#include "live/text_width.h"

#include <pyprof/error.h>

#include "base/text.h"

#include <utf8proc.h>

#include <deque>

namespace pyprof {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kEllipsis = "…";
// More marks on one base are decoration, or an attack: ncurses keeps as many (CCHARW_MAX less the base).
constexpr int kMostMarks = 4;

bool is_mark(char32_t point) {
    if (point < 0x300) return false;
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
    const bool joins = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF;
    return joins && utf8proc_charwidth(static_cast<utf8proc_int32_t>(point)) == 0;
}

}  // namespace

Glyph take_glyph(std::string_view& text) {
    check(!text.empty(), "a glyph of an empty text");
    const Decoded base = decode_utf8(text);
    if (base.length == 0) {
        text.remove_prefix(1);
        return {std::string(kReplacement), 1};
    }
    const int width = utf8proc_charwidth(static_cast<utf8proc_int32_t>(base.code_point));
    Glyph glyph{std::string(width > 0 ? text.substr(0, base.length) : kReplacement), width > 1 ? 2 : 1};
    text.remove_prefix(base.length);
    for (int marks = 0;; ++marks) {
        const Decoded next = decode_utf8(text);
        if (next.length == 0 || !is_mark(next.code_point)) return glyph;
        if (marks < kMostMarks) glyph.text += text.substr(0, next.length);
        text.remove_prefix(next.length);
    }
}

int columns_of(std::string_view text) {
    int columns = 0;
    while (!text.empty()) columns += take_glyph(text).columns;
    return columns;
}

std::string cut_end(std::string_view text, int columns) {
    std::string kept;
    std::string with_room;  // `kept` as it was while one more column was free
    int used = 0;
    while (!text.empty()) {
        const Glyph glyph = take_glyph(text);
        if (used + 1 <= columns) with_room = kept;
        if (used + glyph.columns > columns) return columns > 0 ? with_room + std::string(kEllipsis) : std::string();
        kept += glyph.text;
        used += glyph.columns;
    }
    return kept;
}

std::string cut_begin(std::string_view text, int columns) {
    std::deque<Glyph> kept;
    int used = 0;
    bool is_cut = false;
    while (!text.empty()) {
        kept.push_back(take_glyph(text));
        used += kept.back().columns;
        while (used + (is_cut ? 1 : 0) > columns && !kept.empty()) {
            used -= kept.front().columns;
            kept.pop_front();
            is_cut = true;
        }
    }
    std::string result(is_cut && columns > 0 ? kEllipsis : std::string_view());
    for (const Glyph& glyph : kept) result += glyph.text;
    return result;
}

}  // namespace pyprof
