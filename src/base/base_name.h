// SPDX-License-Identifier: Apache-2.0
//
// The last part of a path, as basename(1) has it. Text alone: no file is looked at.
#pragma once

#include <string_view>

namespace pyprof {

inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

}  // namespace pyprof
