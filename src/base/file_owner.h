// SPDX-License-Identifier: Apache-2.0
//
// Whom a file that we make is to belong to: under sudo the user who called it, not root.
#pragma once

#include <sys/types.h>

namespace pyprof {

struct FileOwner {
    uid_t uid = 0;
    gid_t gid = 0;
};

}  // namespace pyprof
