// SPDX-License-Identifier: Apache-2.0
//
// What a recording says of itself: the progress line while it runs, the closing line, the figures as
// JSON. All of it goes to stderr or to the file that was asked for, never to stdout.
#pragma once

#include <pyprof/profile.h>

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace pyprof {

// One line on a terminal, redrawn; nothing where stderr is none.
class Progress {
public:
    explicit Progress(bool wanted);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(const RunFigures& figures);
    void clear();

private:
    bool is_on_;
    bool is_shown_ = false;
};

// `python_children`: processes below the profiled one that are Python, too, and are not profiled.
std::string closing_line(const ResolvedProfile& profile, std::size_t python_children, const std::string& output);
void write_stats(const ResolvedProfile& profile, std::size_t python_children, std::ostream& out);

}  // namespace pyprof
