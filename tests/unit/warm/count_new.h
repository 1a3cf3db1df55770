// SPDX-License-Identifier: Apache-2.0
//
// Counts what operator new is asked for, in the whole program that count_new.cpp is linked into. For one thread.
#pragma once

#include <cstddef>

namespace pyprof::test {

extern bool is_counting;
extern std::size_t allocations;  // while it is set

}  // namespace pyprof::test
