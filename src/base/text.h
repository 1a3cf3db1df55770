// SPDX-License-Identifier: Apache-2.0
//
// Foreign text made fit for a terminal. Names of threads, functions and files come from the target and
// may hold anything; none of it may move a cursor or turn the reading direction.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pyprof {

// Printable UTF-8 stays. C0, DEL and bytes that are not UTF-8 become \xNN; C1 (U+0080 to U+009F), line
// and paragraph separators and the bidirectional controls become \u{NNNN}. A backslash stays as it is:
// the result is for reading, not for parsing.
std::string escape_control(std::string_view text);

// Longer text loses its middle to an "…", so that both ends stay: at most `bytes` (the … alone needs 3), and
// never half a code point.
std::string elide_middle(std::string_view text, std::size_t bytes);

// One code point at the start of `text`, or length 0 where the bytes are not UTF-8 (overlong forms,
// surrogates and what lies above U+10FFFF included) or `text` is empty.
struct Decoded {
    char32_t code_point = 0;
    std::size_t length = 0;
};
Decoded decode_utf8(std::string_view text);

}  // namespace pyprof
