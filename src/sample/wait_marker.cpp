// SPDX-License-Identifier: Apache-2.0
#include "sample/wait_marker.h"

#include "target/syscall_names.h"

#include <sys/syscall.h>

#include <array>

namespace pyprof {

// A wait with a timeout that an earlier stop interrupted goes on as restart_syscall(2), with the first argument still
// in its register.
bool waits_for_gil(const Activity& activity, Address gil_begin, Address gil_end) {
    const bool may_be_futex = activity.syscall == SYS_futex || activity.syscall == SYS_restart_syscall;
    return may_be_futex && is_within(Address{activity.arguments[0]}, gil_begin, gil_end);
}

Activity name_restarted(Memory& memory, Activity activity) {
    if (activity.kind != Activity::Kind::kBlocked || activity.syscall != SYS_restart_syscall) return activity;
    constexpr std::size_t kBytes = 7;  // b8, a number of 4 bytes, 0f 05
    std::array<std::byte, kBytes> code{};
    if (raw(activity.program_counter) < kBytes || !read_bytes(memory, Address{raw(activity.program_counter) - kBytes}, code)) return activity;
    const bool is_call = code[0] == std::byte{0xb8} && code[5] == std::byte{0x0f} && code[6] == std::byte{0x05};
    if (is_call) activity.syscall = load<std::int32_t>(code.data(), 1);
    return activity;
}

std::string wait_marker(const Activity& activity, Address gil_begin, Address gil_end) {
    if (activity.kind != Activity::Kind::kBlocked || activity.syscall < 0) return {};
    if (waits_for_gil(activity, gil_begin, gil_end)) return "[gil wait]";
    return '[' + syscall_name(activity.syscall) + ']';
}

}  // namespace pyprof
