// SPDX-License-Identifier: Apache-2.0
//
// A line of a command language as words: separated by blanks, quoted with ' or ", a backslash for one character;
// what follows a # at the start of a word is a comment.
#pragma once

#include <pyprof/error.h>

#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

Result<std::vector<std::string>> split_words(std::string_view line);

// The word that text typed so far ends in, as it stands: what a completion replaces.
std::string_view last_word(std::string_view line);

}  // namespace pyprof
