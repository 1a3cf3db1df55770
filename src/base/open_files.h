// SPDX-License-Identifier: Apache-2.0
//
// How many files we may have open. A target with hundreds of libraries and threads needs more of them than the usual soft
// limit of 1024. A program that we start gets the limit that we were started with.
#pragma once

namespace pyprof {

// Raises the soft limit to the hard one, once.
void raise_open_file_limit();
// In a child before it executes a program: safe between fork and exec.
void restore_open_file_limit();

}  // namespace pyprof
