// SPDX-License-Identifier: Apache-2.0
//
// Line tables of any bytes: decoding ends, stays within its bounds, and its answers keep their promises.
// Input: kind (1), first line (4), count of units (2), the table.
#include "python/line_table.h"

#include <pyprof/error.h>
#include <pyprof/memory.h>

#include <limits>

using namespace pyprof;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kHead = 7;
    if (size < kHead) return 0;
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto kind = static_cast<LineTableKind>(data[0] % 3);
    const auto first_line = load<std::int32_t>(bytes.data(), 1);
    const int unit_count = load<std::uint16_t>(bytes.data(), 5);
    const LineTable table = LineTable::decode(bytes.subspan(kHead), first_line, kind, unit_count);

    check(table.range_count() <= size, "more ranges than bytes");
    check(table.line_at(-1) == first_line, "before the first instruction: the first line");
    constexpr int kMostAsked = 1000;
    for (int i = 0; i < kMostAsked; ++i) {
        const int line = table.line_at(i);
        const bool is_first = kind == LineTableKind::kLnotab && line == first_line;
        check(line >= 0 || line == LineTable::kNoLine || is_first, "a line is a line");
    }
    if (unit_count > 0) check(table.line_at(unit_count) == LineTable::kNoLine, "behind the code: no line");
    (void)table.line_at(std::numeric_limits<int>::max());
    return 0;
}
