// SPDX-License-Identifier: Apache-2.0
//
// The file that holds the debug information of a stripped one, where packages and builds put it. It is taken only
// if it belongs to that very file, by build-id or, where there is none, by the checksum in the link.
#pragma once

#include "native/elf_image.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

struct DebugSearch {
    std::vector<std::string> roots{""};  // directories in whose file systems to look, the target's first
    // Asked last, with the build-id; empty unless the user wants debuginfod.
    using Download = std::function<UniqueFd(std::span<const std::byte> build_id)>;
    Download download;
};

// `path` is that of the stripped file as the target sees it.
std::optional<ElfImage> find_debug_file(const ElfImage& stripped, const std::string& path, const DebugSearch& search);

}  // namespace pyprof
