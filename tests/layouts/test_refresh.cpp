// SPDX-License-Identifier: Apache-2.0
//
// refresh, the script that a new version begins with, writes what is stored here.
#include "layouts/headers.h"
#include "layouts/interpreters.h"
#include "support/files.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>

using namespace pyprof::test;

namespace {

const std::string kDirectory = PYPROF_TEST_DIR "/layouts";

std::string temporary_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "pyprof-refresh-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
}

}  // namespace

TEST_CASE("layouts: refresh writes what is stored") {
    for (const Interpreter& interpreter : interpreters(PYPROF_TEST_DIR)) {
        const std::string build = interpreter.build();
        const auto headers = find_headers(build);
        const bool is_stored = !read_text(kDirectory + "/members/" + build + ".txt").empty();
        if (!headers || !is_stored || interpreter.kind != "release") continue;
        const std::string to = temporary_directory();
        std::string command = "'" + kDirectory + "/refresh' --to '" + to + "' '" + *headers + "'";
        for (const std::string& word : interpreter.command) command += " '" + word + "'";
        CAPTURE(command);
        REQUIRE(std::system((command + " >/dev/null").c_str()) == 0);
        for (const std::string& file : {"/expected/" + build + ".txt", "/members/" + build + ".txt",
                                        "/debug_offsets/" + build + ".bin", "/lines/" + build + ".txt"}) {
            CAPTURE(file);
            CHECK(read_text(to + file) == read_text(kDirectory + file));
        }
        std::filesystem::remove_all(to);
        return;  // one is enough: the others take the same way
    }
    WARN("skip: no interpreter here whose build is stored and whose headers are known");
}
