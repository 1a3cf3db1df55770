// SPDX-License-Identifier: Apache-2.0
#include "base/open_files.h"

#include <sys/resource.h>

namespace pyprof {
namespace {

rlimit given{};
bool is_raised = false;

}  // namespace

void raise_open_file_limit() {
    if (is_raised || ::getrlimit(RLIMIT_NOFILE, &given) != 0) return;
    rlimit wanted = given;
    wanted.rlim_cur = wanted.rlim_max;
    is_raised = ::setrlimit(RLIMIT_NOFILE, &wanted) == 0;
}

void restore_open_file_limit() {
    if (is_raised) ::setrlimit(RLIMIT_NOFILE, &given);
}

}  // namespace pyprof
