// SPDX-License-Identifier: Apache-2.0
//
// Finds the headers of a CPython build on this machine, and compiles offsets.c against them.
#pragma once

#include <optional>
#include <string>

namespace pyprof::test {

// `build` is "3.12.1", "3.14.10d" (debug) or "3.14.10t" (free-threaded). Places, in this order: a
// directory of PYPROF_HEADERS (a list with colons; each holds pythonX.Y directories), pyenv, /usr/include,
// what scripts/pythons has fetched, its chroot. The headers of a release build serve the other two as well.
std::optional<std::string> find_headers(const std::string& build);

// What print_offsets says; empty where it can't be compiled.
std::string run_print_offsets(const std::string& directory, const std::string& headers,
                              const std::string& build);

}  // namespace pyprof::test
