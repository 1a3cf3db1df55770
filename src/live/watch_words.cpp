// SPDX-License-Identifier: Apache-2.0
#include "live/watch_words.h"

namespace pyprof {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0'; }

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool in_word = false;
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote == 0 && is_blank(c)) {
            if (in_word) words.push_back(std::move(word));
            word.clear();
            in_word = false;
            continue;
        }
        if (quote == 0 && !in_word && c == '#') break;
        in_word = true;
        if (c == quote) {
            quote = 0;
        } else if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == '\\' && quote != '\'') {
            if (++i == line.size()) return fail(ExitCode::kUsage, "nothing behind the last backslash");
            word += line[i];
        } else {
            word += c;
        }
    }
    if (quote != 0) return fail(ExitCode::kUsage, std::string("a ") + quote + " that is never closed");
    if (in_word) words.push_back(std::move(word));
    return words;
}

std::string_view last_word(std::string_view line) {
    std::size_t begin = line.size();
    while (begin > 0 && !is_blank(line[begin - 1])) --begin;
    return line.substr(begin);
}

}  // namespace pyprof
