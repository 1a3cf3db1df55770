// SPDX-License-Identifier: Apache-2.0
//
// The file behind a mapping: the very one that is mapped, though its path may lead elsewhere, to another
// mount root or to nothing by now. A wrong file is worse than none: it is never taken on its name alone.
#pragma once

#include "target/proc_files.h"

#include <pyprof/memory.h>
#include <pyprof/target.h>

namespace pyprof {

// `process` is an open /proc/PID.
OrErrno<UniqueFd> open_mapped_file(int process, const Mapping& mapping, Memory& memory);

}  // namespace pyprof
