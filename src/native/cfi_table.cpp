// SPDX-License-Identifier: Apache-2.0
#include "native/cfi_table.h"

#include <utility>

namespace pyprof {

CfiTable::CfiTable(ModuleFile& file) {
    sections_.reserve(2);  // rows point into them
    if (auto contents = file.read_section(".eh_frame")) {
        sections_.emplace_back(CfiSection::Kind::kEhFrame, std::move(*contents),
                               file.read_section(".eh_frame_hdr"));
    }
    if (auto contents = file.read_section(".debug_frame")) {
        sections_.emplace_back(CfiSection::Kind::kDebugFrame, std::move(*contents), std::nullopt);
    }
}

std::optional<CfiSection::Found> CfiTable::find(FileAddress address) const {
    for (const CfiSection& section : sections_) {
        if (auto found = section.find(address)) return found;
    }
    return std::nullopt;
}

}  // namespace pyprof
