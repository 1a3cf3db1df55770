// SPDX-License-Identifier: Apache-2.0
#include "sample/wait_marker.h"

#include "target/syscall_names.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pyprof {

namespace {

constexpr std::size_t kCallBytes = 7;  // the two ways below to load a number and call; each ends in 0f 05, syscall

template <std::size_t N>
bool read_code_before(Memory& memory, Address end, std::array<std::uint8_t, N>& code) {
    return raw(end) >= N && read_bytes(memory, Address{raw(end) - N}, std::as_writable_bytes(std::span(code)));
}

// The calls that the kernel goes on with by restart_syscall(2): who sets a restart function (set_restart_fn in
// kernel/time, kernel/futex and fs/select.c).
bool is_restartable(std::int64_t number) {
    return number == SYS_nanosleep || number == SYS_clock_nanosleep || number == SYS_futex || number == SYS_poll;
}

// A C library from 2.41 on makes calls that pthread_cancel(3) may end in one place, __syscall_cancel_arch (glibc
// sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S): the number comes in rsi, which is overwritten. Its caller had it from its
// own stack: mov disp8(%rsp), %rsi before the call.
std::optional<std::int64_t> number_of_cancellable(Memory& memory, const Activity& activity) {
    static constexpr std::array<std::uint8_t, 35> kCancelArch{
        0x49, 0x89, 0xfb, 0x48, 0x89, 0xf0, 0x48, 0x89, 0xd7, 0x48, 0x89, 0xce, 0x4c, 0x89, 0xc2, 0x4d, 0x89, 0xca,
        0x4c, 0x8b, 0x44, 0x24, 0x08, 0x4c, 0x8b, 0x4c, 0x24, 0x10, 0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};
    std::array<std::uint8_t, kCancelArch.size()> code{};
    if (!read_code_before(memory, activity.program_counter, code) || code != kCancelArch) return {};
    const auto back = read_pointer(memory, activity.stack_pointer);
    std::array<std::uint8_t, 32> caller{};
    if (!back || !read_code_before(memory, *back, caller)) return {};
    static constexpr std::array<std::uint8_t, 4> kLoad{0x48, 0x8b, 0x74, 0x24};
    const auto load = std::find_end(caller.begin(), caller.end() - 1, kLoad.begin(), kLoad.end());
    if (load == caller.end() - 1) return {};
    // Our stack pointer is that of the call less the address that it has pushed.
    return read_value<std::int64_t>(memory, activity.stack_pointer + 8 + load[kLoad.size()]);
}

std::optional<std::int64_t> number_of_restarted(Memory& memory, const Activity& activity) {
    std::array<std::uint8_t, kCallBytes> code{};
    if (!read_code_before(memory, activity.program_counter, code) || code[5] != 0x0f || code[6] != 0x05) return {};
    if (code[0] == 0xb8) {  // mov imm32, %eax
        std::int32_t number = 0;
        std::memcpy(&number, &code[1], sizeof number);
        return number;
    }
    // mov disp8(%rsp), %rax: the same C library in a process of one thread.
    if (code[0] == 0x48 && code[1] == 0x8b && code[2] == 0x44 && code[3] == 0x24) {
        return read_value<std::int64_t>(memory, activity.stack_pointer + code[4]);
    }
    return number_of_cancellable(memory, activity);
}

}  // namespace

bool waits_for_events(const Activity& activity) {
    constexpr std::int64_t kEpollPwait2 = 441;  // of all architectures; headers before Linux 5.11 lack it
    if (activity.kind != Activity::Kind::kBlocked) return false;
    return activity.syscall == SYS_epoll_wait || activity.syscall == SYS_epoll_pwait || activity.syscall == kEpollPwait2;
}

// A wait with a timeout that an earlier stop interrupted goes on as restart_syscall(2), with the first argument still
// in its register.
bool waits_for_gil(const Activity& activity, Address gil_begin, Address gil_end) {
    const bool may_be_futex = activity.syscall == SYS_futex || activity.syscall == SYS_restart_syscall;
    return may_be_futex && is_within(Address{activity.arguments[0]}, gil_begin, gil_end);
}

Activity name_restarted(Memory& memory, Activity activity) {
    if (activity.kind != Activity::Kind::kBlocked || activity.syscall != SYS_restart_syscall) return activity;
    const auto number = number_of_restarted(memory, activity);
    if (number && is_restartable(*number)) activity.syscall = *number;
    return activity;
}

std::string wait_marker(const Activity& activity, Address gil_begin, Address gil_end) {
    if (activity.kind != Activity::Kind::kBlocked || activity.syscall < 0) return {};
    if (waits_for_gil(activity, gil_begin, gil_end)) return "[gil wait]";
    return '[' + syscall_name(activity.syscall) + ']';
}

}  // namespace pyprof
