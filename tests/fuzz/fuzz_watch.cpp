// SPDX-License-Identifier: Apache-2.0
//
// What people type at `pyprof watch` and keep in its configuration, matched against names of a target that are
// just as foreign. The first byte chooses; a line feed divides pattern and text.
#include "live/watch_config.h"
#include "live/watch_history.h"
#include "live/watch_name.h"
#include "live/watch_words.h"

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pyprof;
    if (size == 0 || size > 4096) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    for (const std::string& line : lines_of_history(text)) {
        check(!line.empty() && line.size() <= WatchHistory::kLongestLine && line.find_first_of("\x1b\n\r") == std::string::npos, "a line that is none");
    }
    if (data[0] % 2 == 1) {
        (void)parse_watch_config(text);
        return 0;
    }
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::string rest(text.substr(line.size() == text.size() ? line.size() : line.size() + 1));
    check(last_word(line).size() <= line.size(), "a word is longer than its line");
    const auto words = split_words(line);
    if (!words) return 0;
    const std::vector<SeenFunction> seen{{rest, "/srv/app.py", "app.py"}, {"Page.median", rest, rest}};
    for (const std::string& word : *words) {
        const auto name = WatchName::parse(word);
        if (!name) continue;
        for (const SeenFunction& function : seen) (void)name->matches(function);
        check(near_misses(*name, seen).size() <= seen.size(), "more near misses than functions");
    }
    return 0;
}
