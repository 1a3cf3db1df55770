// SPDX-License-Identifier: Apache-2.0
//
// Which of the processes below another one are Python. For messages alone: it looks at names and files, attaches to
// nothing, and what it may not read is no Python.
#pragma once

#include <pyprof/target.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

class PythonChildren {
public:
    // By the name of the executable or of the command; failing that, where files may be opened, by a libpython among what is
    // mapped, or by _PyRuntime in the executable. An executable is opened once.
    bool is_python(const ProcessFacts& facts, bool may_open_files);
    // The first one.
    std::optional<ProcessFacts> find(const std::vector<ProcessFacts>& processes, bool may_open_files);

private:
    std::map<std::string, bool> executables_;
};

// For a person to know the process again.
std::string command_text(const ProcessFacts& facts);

}  // namespace pyprof
