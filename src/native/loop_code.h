// SPDX-License-Identifier: Apache-2.0
//
// Where the interpreter's loop lies in a file, by its symbols: builds with profiles put what is seldom run elsewhere,
// and copies of it, under names of their own.
#pragma once

#include "native/debug_file.h"

#include <pyprof/target.h>

#include <string>
#include <vector>

namespace pyprof {

// The parts of _PyEval_EvalFrameDefault: itself, .cold, .cold.2962, .part.0 and whatever else compilers append. Empty
// where no symbol names it. A memory without a file is asked for the loop itself alone. `path` is the file's, as the target
// sees it: where it is stripped, its debug file is looked for. May take milliseconds.
std::vector<ModuleFile::Section> find_loop_code(ModuleFile& file, const std::string& path, const DebugSearch& search);

}  // namespace pyprof
