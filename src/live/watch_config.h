// SPDX-License-Identifier: Apache-2.0
//
// What a person keeps in a file for `pyprof watch`: TOML with the functions and how to sample. Text goes in, so
// that it can be tested and fuzzed; an unknown key is an error, since a misspelt one would silently do nothing.
#pragma once

#include <pyprof/error.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

struct WatchConfig {
    std::vector<std::string> functions;
    std::optional<double> rate_hz;
    std::string threads;  // "", "running", "all" or "gil"
    bool nonblocking = false;
};

Result<WatchConfig> parse_watch_config(std::string_view text);

}  // namespace pyprof
