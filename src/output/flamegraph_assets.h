// SPDX-License-Identifier: Apache-2.0
//
// The style sheet and the script that every flame graph carries with it: the file needs nothing else.
#pragma once

#include <string_view>

namespace pyprof {

extern const std::string_view kFlamegraphStyle;
extern const std::string_view kFlamegraphScript;

}  // namespace pyprof
