// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof watch` says besides results, as text for people and as one JSON object a line for programs. Pure functions.
#pragma once

#include "live/watch_name.h"

#include <pyprof/error.h>
#include <pyprof/profile.h>

#include <string>
#include <vector>

namespace pyprof {

struct WatchStatus {
    bool is_sampling = false;
    pid_t pid = 0;
    std::string python;
    std::string command;
    double rate_hz = 0;
    double reached_hz = 0;
    RunFigures figures;  // of what is sampled now
    std::uint64_t samples = 0;
    std::size_t names = 0;
};
std::string status_text(const WatchStatus& status);
std::string status_json(const WatchStatus& status);

std::string names_text(const std::vector<WatchName>& names);
std::string names_json(const std::vector<WatchName>& names);

std::string error_json(const Error& error);

}  // namespace pyprof
