// SPDX-License-Identifier: Apache-2.0
//
// A code object's line table, decoded once into sorted ranges. The bytes are foreign: any table gives
// some LineTable, and none costs more than its own length in time or memory.
#pragma once

#include <pyprof/layout.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pyprof {

class LineTable {
public:
    static constexpr int kNoLine = -1;

    LineTable() = default;

    // `unit_count` bounds the table: code units from 3.10 on, bytes of code for 3.8 and 3.9; 0 when unknown.
    static LineTable decode(std::span<const std::byte> table, int first_line, LineTableKind kind,
                            int unit_count);

    // Line of an instruction by its index: in code units from 3.10 on, in bytes for 3.8 and 3.9. Before
    // the first instruction (a frame that has not begun): the first line. kNoLine: the code has none there.
    [[nodiscard]] int line_at(int instruction_index) const;

    [[nodiscard]] std::size_t range_count() const { return ranges_.size(); }

private:
    struct Range {
        std::int32_t begin = 0;  // of the range; it ends where the next one begins
        std::int32_t line = kNoLine;
    };
    void append(std::int32_t begin, std::int32_t line);
    void decode_lnotab(std::span<const std::byte> table, std::int32_t bound);
    void decode_linetable(std::span<const std::byte> table, std::int32_t bound);
    void decode_locations(std::span<const std::byte> table, std::int32_t bound);

    std::int32_t first_line_ = kNoLine;
    std::int32_t end_ = 0;  // one past the last index that the table speaks of
    std::vector<Range> ranges_;
};

}  // namespace pyprof
