// SPDX-License-Identifier: Apache-2.0
#include "sample/wait_marker.h"

#include "target/syscall_names.h"

#include <sys/syscall.h>

namespace pyprof {

// A wait with a timeout that an earlier stop interrupted goes on as restart_syscall(2), with the first argument still
// in its register.
bool waits_for_gil(const Activity& activity, Address gil_begin, Address gil_end) {
    const bool may_be_futex = activity.syscall == SYS_futex || activity.syscall == SYS_restart_syscall;
    return may_be_futex && is_within(Address{activity.arguments[0]}, gil_begin, gil_end);
}

std::string wait_marker(const Activity& activity, Address gil_begin, Address gil_end) {
    if (activity.kind != Activity::Kind::kBlocked || activity.syscall < 0) return {};
    if (waits_for_gil(activity, gil_begin, gil_end)) return "[gil wait]";
    return '[' + syscall_name(activity.syscall) + ']';
}

}  // namespace pyprof
