// SPDX-License-Identifier: Apache-2.0
//
// A hostile file's call frame information, with or without a search table, under a stack that is hostile,
// too:
//
//   u8 kind (bit 0: .debug_frame, bit 1: with a table) | u16 size of the table | table | section
#include "native/cfi_section.h"
#include "native/unwinder.h"
#include "support/code_target.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using namespace pyprof;

constexpr std::uint64_t kSection = 0x1000;
constexpr std::uint64_t kTable = 0x800;
constexpr std::uint64_t kCode = 0x400000;
constexpr std::uint64_t kStack = 0x7000'0000;
constexpr std::size_t kMostLookups = 64;

void look_up(const CfiSection& section) {
    auto starts = section.function_starts();
    if (starts.size() > kMostLookups) starts.resize(kMostLookups);
    starts.push_back(FileAddress{0});
    starts.push_back(FileAddress{~std::uint64_t{0}});
    for (const FileAddress start : starts) {
        for (std::uint64_t offset : {0U, 1U, 100U}) {
            const FileAddress address{raw(start) + offset};
            const auto found = section.find(address);
            if (!found) continue;
            check(raw(found->end) > raw(address), "a row ends before it starts");
            check(found->row.rule_count <= RegisterSet::kCount, "too many rules");
        }
    }
}

// The input is stack, registers and tables at once.
void unwind(std::span<const std::byte> input, const ModuleFile::Contents& section) {
    test::CodeTarget target;
    target.map_code(kCode, "/file", section);
    Unwinder unwinder(target);
    unwinder.trust_frame_pointer_in_anonymous_code(true);
    StackCopy copy;
    copy.begin = Address{kStack};
    copy.bytes.assign(input.begin(), input.end());
    for (unsigned number = 0; number < RegisterSet::kCount; ++number)
        copy.registers.set(number, kStack + number * 8);
    std::vector<NativeFrame> frames;
    for (std::uint64_t pc : {0x0U, 0x10U, 0x2000U, 0x2004U}) {
        frames.clear();
        copy.registers.set(RegisterSet::kReturnAddress, kCode + pc);
        static_cast<void>(unwinder.unwind(copy, frames));
        for (std::size_t i = 1; i < frames.size(); ++i)
            check(raw(frames[i].sp) > raw(frames[i - 1].sp), "a frame without a stack of its own");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = std::as_bytes(std::span(data, size));
    if (size < 3) return 0;
    const bool is_debug = (data[0] & 1) != 0;
    const std::size_t table_size = std::min<std::size_t>(load<std::uint16_t>(input.data(), 1), size - 3);
    const auto table = input.subspan(3, table_size);
    const auto rest = input.subspan(3 + table_size);
    const ModuleFile::Contents section{FileAddress{kSection}, {rest.begin(), rest.end()}};
    std::optional<ModuleFile::Contents> search;
    if ((data[0] & 2) != 0) search = ModuleFile::Contents{FileAddress{kTable}, {table.begin(), table.end()}};
    look_up(
        CfiSection(is_debug ? CfiSection::Kind::kDebugFrame : CfiSection::Kind::kEhFrame, section, search));
    unwind(input, section);
    return 0;
}
