// SPDX-License-Identifier: Apache-2.0
//
// The stubs through which a file calls functions of others. No symbol names them: each jumps through a slot, and
// a relocation says whose address that slot gets.
#pragma once

#include "native/elf_image.h"
#include "native/symbol_table.h"

namespace pyprof {

// Adds "memcpy@plt" and the like to `symbols`. x86-64 only; elsewhere stubs stay without a name.
void add_plt_names(const ElfImage& image, SymbolTable& symbols);

}  // namespace pyprof
