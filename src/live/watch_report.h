// SPDX-License-Identifier: Apache-2.0
//
// Results of a watch in words: a table for people, one JSON object a line for programs. Pure functions; foreign
// names are escaped here.
#pragma once

#include "live/watch_session.h"

#include <string>

namespace pyprof {

std::string results_text(const WatchResults& results);
// One line. `event`: "results", or why they are told without having been asked for.
std::string results_json(const WatchResults& results, std::string_view event);

// "1.234 ± 0.041": as many digits as the error allows. A time without an error has three.
std::string with_error(const WatchTime& time);

}  // namespace pyprof
