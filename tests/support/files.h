// SPDX-License-Identifier: Apache-2.0
//
// Whole files and directory listings, for tests that keep their data beside them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof::test {

// The bytes of a file; empty when it can't be read.
std::vector<std::byte> read_file(const std::string& path);
std::string read_text(const std::string& path);
// Names in a directory that end so, sorted, without the ending.
std::vector<std::string> files_in(const std::string& directory, std::string_view ending);

}  // namespace pyprof::test
