// SPDX-License-Identifier: Apache-2.0
//
// Where functions begin, by the search table of .eh_frame_hdr, which stripped files keep: what has no name is
// told apart by it. One function may have several parts there (hot and cold).
#pragma once

#include "native/elf_image.h"

#include <pyprof/address.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace pyprof {

class FunctionStarts {
public:
    FunctionStarts() = default;
    // Empty where the file has no table, or one of another kind than all linkers write.
    explicit FunctionStarts(const ElfImage& image);
    // From the bytes of the section, which is loaded at `address`.
    FunctionStarts(std::span<const std::byte> table, FileAddress address);

    // The start of the part of a function that holds `address`, or of the last one below it.
    [[nodiscard]] std::optional<FileAddress> find(FileAddress address) const;

private:
    std::vector<std::uint64_t> starts_;  // sorted
};

}  // namespace pyprof
