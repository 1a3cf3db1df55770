// SPDX-License-Identifier: Apache-2.0
//
// A source file of the target, as the target sees it: its lines, bounded. It opens regular files alone, and links
// lead nowhere outside of the target's root.
#pragma once

#include <pyprof/error.h>

#include <sys/types.h>

#include <string>
#include <vector>

namespace pyprof {

struct SourceText {
    std::vector<std::string> lines;
    bool is_newer = false;  // changed after the process started: its lines may be others
};

// `path` is relative to the target's working directory unless it begins with a slash.
Result<SourceText> read_source(pid_t pid, const std::string& path);

}  // namespace pyprof
