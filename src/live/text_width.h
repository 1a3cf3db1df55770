// SPDX-License-Identifier: Apache-2.0
//
// How many columns of a terminal a text takes: wide characters take two, combining ones none. It does not
// depend on the locale. Text must be fit for a terminal already (escape_control).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pyprof {

// One character as a terminal draws it: a base and the combining marks that belong to it.
struct Glyph {
    std::string text;  // UTF-8; what no terminal can draw is U+FFFD
    int columns = 0;   // 1 or 2
};

// The next glyph of `text`, which is cut by it. `text` must not be empty.
Glyph take_glyph(std::string_view& text);

int columns_of(std::string_view text);

// At most `columns` columns of `text`: its beginning, or its end; a cut is shown by "…", where there is room.
std::string cut_end(std::string_view text, int columns);
std::string cut_begin(std::string_view text, int columns);

}  // namespace pyprof
