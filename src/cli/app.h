// SPDX-License-Identifier: Apache-2.0
//
// The command line: parses it, runs a command, prints one line and one hint for an Error, and turns
// what happened into an exit code.
#pragma once

namespace pyprof {

int run_app(int argc, char** argv);

}  // namespace pyprof
