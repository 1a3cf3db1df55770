// SPDX-License-Identifier: Apache-2.0
//
// The lines that a person typed at the prompt of `pyprof watch`, kept between sessions. The file is foreign: bounded, and what
// is no line of text is left out. Where it can't be kept nothing is said and nothing fails: a prompt works without. It is
// touched only in a directory of our own user's, so that root never writes where somebody else may have put a link.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pyprof {

class WatchHistory {
public:
    static constexpr std::size_t kMostLines = 1000;
    static constexpr std::size_t kLongestLine = 4096;

    WatchHistory() = default;  // keeps nothing
    explicit WatchHistory(std::string path) : path_(std::move(path)) {}

    // The last lines, the oldest first. A file that has grown is cut to them.
    std::vector<std::string> load();
    // Writes the line at once, behind those of other sessions. Not one that begins with a blank or repeats the last one.
    void add(const std::string& line);

private:
    std::string path_;
    std::string last_;
};

// The lines of such a file that are fit to be shown and used, at most the last kMostLines.
std::vector<std::string> lines_of_history(std::string_view text);

// $XDG_STATE_HOME/pyprof/watch_history, by default ~/.local/state/pyprof/watch_history; empty: nowhere. Null where a variable is
// not set.
std::string watch_history_path(const char* state_home, const char* home);

}  // namespace pyprof
