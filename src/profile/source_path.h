// SPDX-License-Identifier: Apache-2.0
//
// Where a file belongs and how it is called for short. The rule looks at that path alone (and at the
// recorded working directory), never at other paths or at our own file system, so that two runs of one
// program give the same names. See docs/output-formats.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace pyprof {

enum class Origin : std::uint8_t {
    kProgram,   // whatever is none of the others
    kPackage,   // below site-packages or dist-packages
    kStandard,  // below lib/pythonX.Y, or frozen into the interpreter
};

struct SourcePath {
    std::string_view short_path;  // a part of the path that was given
    Origin origin = Origin::kProgram;
};

[[nodiscard]] SourcePath shorten(std::string_view path, std::string_view working_directory);

}  // namespace pyprof
