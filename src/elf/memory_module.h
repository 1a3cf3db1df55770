// SPDX-License-Identifier: Apache-2.0
//
// A loaded ELF file seen in the target's own memory, for when the file itself can't be opened: deleted,
// replaced, or in a mount namespace that we may not enter. Section headers are not loaded, so there are no
// sections and only dynamic symbols. Every number in it is the target's and therefore checked.
#pragma once

#include <pyprof/memory.h>
#include <pyprof/target.h>

#include <memory>

namespace pyprof {

// `base` is where offset 0 of the file is mapped; `memory` must outlive the module.
Result<std::unique_ptr<ModuleFile>> open_memory_module(Memory& memory, Address base, const std::string& name);

}  // namespace pyprof
