// SPDX-License-Identifier: Apache-2.0
//
// The screen of `pyprof top` as a value: a pure function of the data, the person's choices and the size.
#pragma once

#include "live/grid.h"
#include "live/top_view.h"

#include <vector>

namespace pyprof {

// Where the lines stand on a screen of so many rows.
struct TopLayout {
    int head_rows = 0;  // facts
    int first_row = 0;  // of the lines
    int page = 1;       // lines
};
TopLayout top_layout(int rows);

// Moves what is shown so that the selected line is in it.
void keep_in_view(TopView& view, const std::vector<TopLine>& lines, int page);

// The line of the source at which details begin, so that the hottest one is on a screen of so many rows.
int first_detail(const TopDetails& details, int rows);

Grid draw_top(const TopData& data, const TopView& view, const std::vector<TopLine>& lines, int rows, int columns);

// Shared with the plain table: "% of 98 samples of running threads in the last 1.0 s; ..."
std::string base_text(const TopData& data);
std::string time_text(std::chrono::nanoseconds time);

}  // namespace pyprof
