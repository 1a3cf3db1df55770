// SPDX-License-Identifier: Apache-2.0
//
// One function in detail: which of its lines take the time, who calls it, what it calls.
#pragma once

#include "live/top_view.h"

#include <pyprof/profile.h>

#include <string>
#include <vector>

namespace pyprof {

// `source`: the lines of its file, may be empty; `note` says why. Shows the part around the sampled lines.
TopDetails make_details(const std::vector<TopSource>& since_start, const TopFunction& function, const std::vector<std::string>& source,
                        const std::string& note);

}  // namespace pyprof
