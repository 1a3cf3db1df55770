// SPDX-License-Identifier: Apache-2.0
//
// An ELF file on disk through libelf. The file may be hostile, truncated or changing: it is read, never
// mapped (a mapping of a file that shrinks is a SIGBUS), and libelf bounds every offset by its size.
#pragma once

#include "base/unique_fd.h"

#include <pyprof/target.h>

#include <memory>
#include <string>

namespace pyprof {

// `name` is for messages. Only 64-bit files of this machine's byte order are understood.
Result<std::unique_ptr<ModuleFile>> open_elf_module(UniqueFd file, const std::string& name);

}  // namespace pyprof
