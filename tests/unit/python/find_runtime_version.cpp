// SPDX-License-Identifier: Apache-2.0
//
// Versions in names and texts.
#include "python/find_runtime_version.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace std::string_view_literals;

TEST_CASE("find runtime version: file names") {
    CHECK(version_of_file_name("/usr/lib/x86_64-linux-gnu/libpython3.9.so.1.0") == 0x03090000);
    CHECK(version_of_file_name("/opt/libpython3.13t.so") == 0x030d0000);
    CHECK(version_of_file_name("/usr/bin/python3.8") == 0x03080000);
    CHECK(version_of_file_name("python3.12d") == 0x030c0000);
    CHECK(version_of_file_name("/usr/bin/python2.7") == 0x02070000);
    for (const char* path : {"/usr/bin/python3", "/usr/bin/python", "/lib/python3.9/foo", "", "/", "/opt/foo",
                             "libpython9.9.so", "libpython3.9999.so", "libpython3.300.so"}) {
        INFO(path);
        CHECK(version_of_file_name(path) == 0);
    }
}

TEST_CASE("find runtime version: library paths") {
    CHECK(version_of_library_path("/usr/lib/python3.11/lib-dynload/_asyncio.so") == 0x030b0000);
    CHECK(version_of_library_path("/opt/lib/python3/x/lib/python3.8/y.so") == 0x03080000);
    CHECK(version_of_library_path("/opt/lib/python3.13t/site-packages/z.so") == 0x030d0000);
    CHECK(version_of_library_path("/usr/lib/python3/dist-packages/x.so") == 0);
    CHECK(version_of_library_path("/usr/lib/python3.8x/x.so") == 0);
    CHECK(version_of_library_path("/usr/lib/libc.so.6") == 0);
}

TEST_CASE("find runtime version: the text of Py_GetVersion among other bytes") {
    CHECK(version_in_bytes("\0\0003.8.18 (default, x)"sv) == 0x030812f0);
    CHECK(version_in_bytes("3.10.0rc2 (main) "sv) == 0x030a00c2);
    CHECK(version_in_bytes("\0003.15.0a7+ (heads/main) "sv) == 0x030f00a7);
    CHECK(version_in_bytes("\0003.9.0b1 (x"sv) == 0x030900b1);
    CHECK(version_in_bytes("x3.8.18 (default, x)"sv) == 0);
    CHECK(version_in_bytes("\0003.8.18\0"sv) == 0);
    CHECK(version_in_bytes("\0003.8 (x)"sv) == 0);
    CHECK(version_in_bytes("\0003.14159 (pi)"sv) == 0);
    CHECK(version_in_bytes("\0003.9.1rc99 (x)"sv) == 0);
    CHECK(version_in_bytes("3."sv) == 0);
    CHECK(version_in_bytes(""sv) == 0);
}
