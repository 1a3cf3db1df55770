// SPDX-License-Identifier: Apache-2.0
//
// The entry: everything is in src/cli.
#include "cli/app.h"

int main(int argc, char** argv) { return pyprof::run_app(argc, argv); }
