// SPDX-License-Identifier: Apache-2.0
//
// Which words of a command line are the program to start. What looks like an option of ours is never taken for one.
#pragma once

#include <pyprof/error.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pyprof {

// What follows `--`, else the first word that is no option and all behind it; empty where there is none.
Result<std::vector<std::string>> program_of(const CLI::App& command, std::vector<std::string> after_separator);

}  // namespace pyprof
