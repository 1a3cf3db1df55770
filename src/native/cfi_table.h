// SPDX-License-Identifier: Apache-2.0
//
// The call frame information of one file: .eh_frame, and .debug_frame where that has nothing.
#pragma once

#include "native/cfi_section.h"

#include <optional>
#include <vector>

namespace pyprof {

class CfiTable {
public:
    CfiTable() = default;  // of a file that can't be read: it has no row
    explicit CfiTable(ModuleFile& file);

    [[nodiscard]] std::optional<CfiSection::Found> find(FileAddress address) const;
    [[nodiscard]] const std::vector<CfiSection>& sections() const { return sections_; }

private:
    std::vector<CfiSection> sections_;
};

}  // namespace pyprof
