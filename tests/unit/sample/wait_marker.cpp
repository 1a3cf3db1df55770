// SPDX-License-Identifier: Apache-2.0
#include "sample/wait_marker.h"

#include "support/fake_memory.h"

#include <catch2/catch.hpp>

#include <sys/syscall.h>

#include <vector>

using namespace pyprof;
using pyprof::test::FakeMemory;

namespace {

constexpr Address kCode{0x10000};  // where the call returns to
constexpr Address kCaller{0x20000};
constexpr Address kStack{0x30000};

using Code = std::vector<std::uint8_t>;

void put_before(FakeMemory& memory, Address end, const Code& code) {
    memory.map(Address{raw(end) - 64}, 64);
    memory.write(Address{raw(end) - code.size()}, std::as_bytes(std::span(code)));
}

std::int64_t name_of(FakeMemory& memory) {
    Activity activity;
    activity.kind = Activity::Kind::kBlocked;
    activity.syscall = SYS_restart_syscall;
    activity.program_counter = kCode;
    activity.stack_pointer = kStack;
    return name_restarted(memory, activity).syscall;
}

std::int64_t name_behind(const Code& code, std::int64_t at_0x20) {
    FakeMemory memory;
    put_before(memory, kCode, code);
    memory.put(kStack + 0x20, at_0x20);
    return name_of(memory);
}

// glibc 2.43: __syscall_cancel_arch, and what __internal_syscall_cancel has before it calls that.
const Code kCancelArch{0x49, 0x89, 0xfb, 0x48, 0x89, 0xf0, 0x48, 0x89, 0xd7, 0x48, 0x89, 0xce, 0x4c, 0x89, 0xc2, 0x4d, 0x89, 0xca,
                       0x4c, 0x8b, 0x44, 0x24, 0x08, 0x4c, 0x8b, 0x4c, 0x24, 0x10, 0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};
const Code kInternal{0x41, 0x51, 0x48, 0x89, 0xf1, 0x48, 0x89, 0xfa, 0x4d, 0x89, 0xd9, 0x41, 0x50, 0x48, 0x8b, 0x74,
                     0x24, 0x30, 0x49, 0x89, 0xc0, 0x4c, 0x89, 0xd7, 0xe8, 0xfc, 0xb4, 0x00, 0x00};

std::int64_t name_behind_cancel(const Code& arch, const Code& internal, std::int64_t number) {
    FakeMemory memory;
    put_before(memory, kCode, arch);
    put_before(memory, kCaller, internal);
    memory.put(kStack, raw(kCaller));
    memory.put(kStack + 0x38, number);
    return name_of(memory);
}

}  // namespace

TEST_CASE("restarted call: the number stands in the instructions before it") {
    CHECK(name_behind({0xb8, SYS_poll, 0, 0, 0, 0x0f, 0x05}, 0) == SYS_poll);
    CHECK(name_behind({0xb8, 0xca, 0, 0, 0, 0x0f, 0x05}, 0) == SYS_futex);
    CHECK(name_behind({0xb8, SYS_read, 0, 0, 0, 0x0f, 0x05}, 0) == SYS_restart_syscall);  // none that is gone on with so
    CHECK(name_behind({0xb8, SYS_poll, 0, 0, 0, 0x0f, 0x34}, 0) == SYS_restart_syscall);
    CHECK(name_behind({0x90, SYS_poll, 0, 0, 0, 0x0f, 0x05}, SYS_poll) == SYS_restart_syscall);
}

TEST_CASE("restarted call: ... or on the stack") {
    CHECK(name_behind({0x48, 0x8b, 0x44, 0x24, 0x20, 0x0f, 0x05}, SYS_clock_nanosleep) == SYS_clock_nanosleep);
    CHECK(name_behind({0x48, 0x8b, 0x44, 0x24, 0x20, 0x0f, 0x05}, 0x7fff12345678) == SYS_restart_syscall);
    CHECK(name_behind({0x48, 0x8b, 0x44, 0x25, 0x20, 0x0f, 0x05}, SYS_poll) == SYS_restart_syscall);
}

TEST_CASE("restarted call: ... or on the stack of who called the place that makes all of them") {
    CHECK(name_behind_cancel(kCancelArch, kInternal, SYS_futex) == SYS_futex);
    CHECK(name_behind_cancel(kCancelArch, kInternal, SYS_close) == SYS_restart_syscall);
    for (std::size_t i = 0; i < kCancelArch.size(); ++i) {
        Code other = kCancelArch;
        other[i] ^= 1;
        CHECK(name_behind_cancel(other, kInternal, SYS_futex) == SYS_restart_syscall);
    }
    CHECK(name_behind_cancel(kCancelArch, Code(32, 0x90), SYS_futex) == SYS_restart_syscall);
    FakeMemory nothing;
    CHECK(name_of(nothing) == SYS_restart_syscall);
    put_before(nothing, kCode, kCancelArch);
    CHECK(name_of(nothing) == SYS_restart_syscall);  // no stack
}
