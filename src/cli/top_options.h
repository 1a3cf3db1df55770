// SPDX-License-Identifier: Apache-2.0
//
// The options of `pyprof top`.
#pragma once

#include "cli/commands.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pyprof {

struct TopFlags {
    long pid = 0;
    std::string rate = "100";
    std::string interval = "1s";
    std::string async = "off";
    std::uint64_t count = 0;
    bool idle = false;
    bool gil = false;
};

CLI::App* add_top(CLI::App& app, TopSettings& settings, TopFlags& flags, const std::string& exit_codes);
// `command`: the program behind `--`.
Result<int> start_top(TopSettings& settings, const TopFlags& flags, const CLI::App& top, std::vector<std::string> command);

}  // namespace pyprof
