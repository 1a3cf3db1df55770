// SPDX-License-Identifier: Apache-2.0
//
// LSB Core, "The .eh_frame_hdr section": version, three encodings, the address of .eh_frame, a count, and
// pairs (start of the function, address of its entry), each four signed bytes from the section's own start.
#include "native/function_starts.h"

#include <pyprof/memory.h>

#include <algorithm>

namespace pyprof {
namespace {

constexpr std::size_t kCountAt = 8;
constexpr std::size_t kTableAt = 12;
constexpr std::size_t kPair = 8;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kFourBytes = 0x03;         // DW_EH_PE_udata4
constexpr std::uint8_t kFromSectionStart = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4
constexpr std::uint8_t kFromHere = 0x1b;          // DW_EH_PE_pcrel | DW_EH_PE_sdata4

}  // namespace

FunctionStarts::FunctionStarts(const ElfImage& image) {
    if (const auto section = image.find_section(".eh_frame_hdr")) {
        *this = FunctionStarts(ElfImage::bytes_of(*section), FileAddress{section->header.sh_addr});
    }
}

FunctionStarts::FunctionStarts(std::span<const std::byte> table, FileAddress address) {
    if (table.size() < kTableAt) return;
    const auto at = [&](std::size_t offset) { return load<std::uint8_t>(table.data(), offset); };
    if (at(0) != kVersion || at(1) != kFromHere || at(2) != kFourBytes || at(3) != kFromSectionStart) return;
    const std::size_t told = load<std::uint32_t>(table.data(), kCountAt);
    const std::size_t count = std::min(told, (table.size() - kTableAt) / kPair);
    starts_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto offset = load<std::int32_t>(table.data(), kTableAt + i * kPair);
        starts_.push_back(raw(address) + static_cast<std::uint64_t>(std::int64_t{offset}));
    }
    std::sort(starts_.begin(), starts_.end());
}

std::optional<FileAddress> FunctionStarts::find(FileAddress address) const {
    const auto above = std::upper_bound(starts_.begin(), starts_.end(), raw(address));
    if (above == starts_.begin()) return std::nullopt;
    return FileAddress{*(above - 1)};
}

}  // namespace pyprof
