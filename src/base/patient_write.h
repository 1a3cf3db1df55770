// SPDX-License-Identifier: Apache-2.0
//
// Writing to what may keep us waiting for ever: a pipe, a FIFO or a socket whose reader does not read. While it does, the
// signals that end us do so at once; the caller has nothing in hand then that must be put back first.
#pragma once

#include <string_view>

namespace pyprof {

// All of it; 0 or the errno.
int write_all(int fd, std::string_view bytes);

}  // namespace pyprof
