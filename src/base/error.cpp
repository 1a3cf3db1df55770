// SPDX-License-Identifier: Apache-2.0
//
// The two helpers of pyprof/error.h that need code.
#include <pyprof/error.h>

#include <cstdio>
#include <cstdlib>

namespace pyprof {

Error with_context(Error error, std::string_view what) {
    error.message.insert(0, ": ");
    error.message.insert(0, what);
    return error;
}

void check(bool condition, const char* text) {
    if (condition) return;
    std::fputs("pyprof: internal error: ", stderr);
    std::fputs(text, stderr);
    std::fputs("\n", stderr);
    std::abort();
}

}  // namespace pyprof
