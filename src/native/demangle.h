// SPDX-License-Identifier: Apache-2.0
//
// Names of functions as their language writes them. A symbol comes from a foreign file: what is too long, or
// grows too long, stays as it is.
#pragma once

#include <string>
#include <string_view>

namespace pyprof {

// C++ (Itanium ABI) and Rust (v0 and legacy, its hash dropped), without parameters; anything else as it is.
// A clone's suffix (.cold, .part.0, .constprop.0, .llvm.123) and a version (@@GLIBC_2.34) are dropped.
std::string demangle(std::string_view symbol);

// "list_sort.isra.0.cold" -> "list_sort": what GCC and LLVM append. Other dots are the name's own ("runtime.mallocgc").
std::string_view without_clone_suffix(std::string_view symbol);

}  // namespace pyprof
