// SPDX-License-Identifier: Apache-2.0
//
// Debug files by build-id from the servers that DEBUGINFOD_URLS names, through elfutils' libdebuginfod. It is loaded
// when it is asked for and not before: without --debuginfod no code is there that could speak to a network.
#pragma once

#include "native/debug_file.h"

#include <pyprof/error.h>

namespace pyprof {

// Fails where the library is not installed or no server is named. Copies share one client; main thread only.
Result<DebugSearch::Download> open_debuginfod();

}  // namespace pyprof
