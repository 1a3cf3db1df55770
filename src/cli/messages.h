// SPDX-License-Identifier: Apache-2.0
//
// Text for people, on stderr: the only way by which a message reaches a terminal. Messages carry names of the
// target, which may hold anything, so every one is escaped here.
#pragma once

#include <pyprof/error.h>

#include <string>
#include <vector>

namespace pyprof {

void print_line(const std::string& line);
// "pyprof: message", and "hint: ..." below it where there is one.
void print_error(const Error& error);

// Data, on stdout. A reader that has left (EPIPE) is no failure.
Result<void> print_out(const std::string& text);

// A command as one line; the middle of a very long one is left out. Not escaped.
std::string joined(const std::vector<std::string>& words);

}  // namespace pyprof
