// SPDX-License-Identifier: Apache-2.0
//
// Names of the kernel's system calls, from the headers of the machine that built us.
#pragma once

#include <cstdint>
#include <string>

namespace pyprof {

// "futex"; "syscall 999" for a number that the headers don't have.
std::string syscall_name(std::int64_t number);

}  // namespace pyprof
