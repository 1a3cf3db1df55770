// SPDX-License-Identifier: Apache-2.0
//
// The options of `pyprof watch`: those of the command line, and below them those of its configuration file.
#pragma once

#include "cli/commands.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pyprof {

struct WatchFlags {
    long pid = 0;
    std::string rate = "100";
    std::string duration;
    std::string config;
    bool idle = false;
    bool gil = false;
};

CLI::App* add_watch(CLI::App& app, WatchSettings& settings, WatchFlags& flags);
// `command`: the program behind `--`.
Result<int> start_watch(WatchSettings& settings, const WatchFlags& flags, const CLI::App& watch, std::vector<std::string> command);

}  // namespace pyprof
