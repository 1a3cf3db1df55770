// SPDX-License-Identifier: Apache-2.0
//
// One stack with native frames as text, as resolve() writes all stacks of a profile.
#pragma once

#include <pyprof/profile.h>

#include <vector>

namespace pyprof {

// Root first; files are as the target gave them.
std::vector<ResolvedProfile::Frame> name_frames(const StackTable& stacks, StackId stack, NativeNames& natives);

}  // namespace pyprof
