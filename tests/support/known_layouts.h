// SPDX-License-Identifier: Apache-2.0
//
// The layouts of all builds that tests/layouts knows: the rows of 3.8 to 3.12, and those that saved debug
// offsets give. For tests that say the same of every version; links with python/.
#pragma once

#include "python/layouts.h"
#include "support/files.h"

#include <string>
#include <vector>

namespace pyprof::test {

struct KnownLayout {
    std::string name;  // "3.8", "3.13.18", "3.14.10d" (debug), "3.15.2t-headers" (free-threaded)
    Layout layout;
};

// `test_directory` is tests/ of the source tree (PYPROF_TEST_DIR).
inline std::vector<KnownLayout> known_layouts(const std::string& test_directory) {
    std::vector<KnownLayout> all;
    for (int minor = 8; minor <= 12; ++minor) {
        all.push_back({"3." + std::to_string(minor), *layout_of(3, minor)});
    }
    const std::string directory = test_directory + "/layouts/debug_offsets";
    for (const std::string& name : files_in(directory, ".bin")) {
        const auto layout = layout_from_debug_offsets(read_file(directory + "/" + name + ".bin"));
        if (layout) all.push_back({name, *layout});
    }
    return all;
}

}  // namespace pyprof::test
