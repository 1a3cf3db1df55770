// SPDX-License-Identifier: Apache-2.0
//
// `pyprof top` without a screen: a table in plain text, or one JSON object on one line, for each interval.
#pragma once

#include "live/top_view.h"

#include <string>
#include <vector>

namespace pyprof {

std::string plain_table(const TopData& data, const TopView& view, const std::vector<TopLine>& lines, std::size_t most_rows);
std::string json_line(const TopData& data, const TopView& view, const std::vector<TopLine>& lines);

}  // namespace pyprof
