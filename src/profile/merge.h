// SPDX-License-Identifier: Apache-2.0
//
// Several recordings as one: a process that executed another program is recorded anew, with other code
// objects, so only what is already text can be put together.
#pragma once

#include <pyprof/profile.h>

#include <chrono>

namespace pyprof {

// Adds `from`, which began `later` after `into`. Equal frames and stacks are shared; threads are not, since a
// thread of one program is none of another. The facts of `into` stay, but for what both tell of Python.
void merge(ResolvedProfile& into, const ResolvedProfile& from, std::chrono::nanoseconds later);

// The figures of two recordings as those of one.
void add_figures(RunFigures& into, const RunFigures& from);
// What was counted between two readings of one recording; what is a maximum stays that of the later.
RunFigures difference(const RunFigures& later, const RunFigures& earlier);

}  // namespace pyprof
