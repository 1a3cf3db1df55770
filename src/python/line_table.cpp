// SPDX-License-Identifier: Apache-2.0
//
// The three encodings of line tables. 3.8 and 3.9: Objects/lnotab_notes.txt, a line changes where an
// address is reached. 3.10: PEP 626, a line belongs to a range. 3.11 on: InternalDocs/code_objects.md,
// entries of code, length and deltas. A table that breaks its rules ends where it does.
#include "python/line_table.h"

#include <pyprof/memory.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace pyprof {

namespace {

constexpr std::int32_t kUnbounded = std::numeric_limits<std::int32_t>::max();

// Bytes of a table one after the other; nothing behind the end.
class Bytes {
public:
    explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

    [[nodiscard]] bool at_end() const { return position_ >= bytes_.size(); }
    std::optional<unsigned> next() {
        if (at_end()) return std::nullopt;
        return std::to_integer<unsigned>(bytes_[position_++]);
    }
    std::optional<int> next_signed() {
        const auto byte = next();
        if (!byte) return std::nullopt;
        return *byte < 128 ? static_cast<int>(*byte) : static_cast<int>(*byte) - 256;
    }
    void skip(std::size_t count) { position_ += std::min(count, bytes_.size() - position_); }

    // Six bits a byte, lowest first; bit 6 says that more follow. Nothing when it can't be 32 bits.
    std::optional<std::uint64_t> next_varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift <= 30; shift += 6) {
            const auto byte = next();
            if (!byte) return std::nullopt;
            value |= std::uint64_t{*byte & 0x3fU} << shift;
            if ((*byte & 0x40U) == 0) return value;
        }
        return std::nullopt;
    }
    std::optional<std::int64_t> next_signed_varint() {
        const auto value = next_varint();
        if (!value) return std::nullopt;
        const auto magnitude = static_cast<std::int64_t>(*value >> 1U);
        return (*value & 1U) != 0 ? -magnitude : magnitude;
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
};

std::int32_t as_line(std::int64_t line) {
    const bool is_line = line >= 0 && line <= std::numeric_limits<std::int32_t>::max();
    return is_line ? static_cast<std::int32_t>(line) : LineTable::kNoLine;
}

// The line delta of one entry of a location table; its columns are skipped.
struct Location {
    bool has_line = true;
    std::int64_t delta = 0;
};
std::optional<Location> read_location(Bytes& bytes, unsigned code) {
    if (code == 15) return Location{false, 0};
    if (code <= 9) {  // short form: columns in one byte
        bytes.skip(1);
        return Location{true, 0};
    }
    if (code <= 12) {  // one line form: two bytes of columns
        bytes.skip(2);
        return Location{true, static_cast<std::int64_t>(code) - 10};
    }
    const auto delta = bytes.next_signed_varint();
    if (!delta) return std::nullopt;
    if (code == 14) {  // long form: end line, column, end column
        for (int i = 0; i < 3; ++i) {
            if (!bytes.next_varint()) return std::nullopt;
        }
    }
    return Location{true, *delta};
}

}  // namespace

// Begins a range at `begin`, which never lies before the last one's.
void LineTable::append(std::int32_t begin, std::int32_t line) {
    if (!ranges_.empty() && ranges_.back().begin == begin) ranges_.pop_back();
    if (!ranges_.empty() && ranges_.back().line == line) return;
    ranges_.push_back({begin, line});
}

void LineTable::decode_lnotab(std::span<const std::byte> table, std::int32_t bound) {
    Bytes bytes(table);
    std::int64_t address = 0;
    std::int64_t line = first_line_;
    append(0, as_line(line));
    while (true) {
        const auto address_delta = bytes.next();
        const auto line_delta = bytes.next_signed();
        if (!line_delta) break;
        address += *address_delta;
        line += *line_delta;
        if (address >= bound) break;
        append(static_cast<std::int32_t>(address), as_line(line));
    }
    end_ = bound;  // the last line reaches to the end of the code
}

void LineTable::decode_linetable(std::span<const std::byte> table, std::int32_t bound) {
    constexpr int kWithoutLine = -128;
    Bytes bytes(table);
    std::int64_t address = 0;  // in bytes; indices are in units of two
    std::int64_t line = first_line_;
    while (address / 2 < bound) {
        const auto length = bytes.next();
        const auto line_delta = bytes.next_signed();
        if (!line_delta) break;
        if (*line_delta != kWithoutLine) line += *line_delta;
        if (*length == 0) continue;
        append(static_cast<std::int32_t>(address / 2), *line_delta == kWithoutLine ? kNoLine : as_line(line));
        address += *length;
    }
    end_ = static_cast<std::int32_t>(std::min<std::int64_t>(address / 2, bound));
}

void LineTable::decode_locations(std::span<const std::byte> table, std::int32_t bound) {
    Bytes bytes(table);
    std::int64_t unit = 0;
    std::int64_t line = first_line_;
    while (unit < bound && !bytes.at_end()) {
        const unsigned head = *bytes.next();
        if ((head & 0x80U) == 0) break;  // every entry begins with that bit
        const auto location = read_location(bytes, head >> 3U & 0xfU);
        if (!location) break;
        line += location->delta;
        append(static_cast<std::int32_t>(unit), location->has_line ? as_line(line) : kNoLine);
        unit += (head & 7U) + 1;
    }
    end_ = static_cast<std::int32_t>(std::min<std::int64_t>(unit, bound));
}

LineTable LineTable::decode(std::span<const std::byte> table, int first_line, LineTableKind kind,
                            int unit_count) {
    LineTable result;
    result.first_line_ = first_line;
    const std::int32_t bound = unit_count > 0 ? unit_count : kUnbounded;
    switch (kind) {
        case LineTableKind::kLnotab:
            result.decode_lnotab(table, bound);
            break;
        case LineTableKind::kLinetable:
            result.decode_linetable(table, bound);
            break;
        case LineTableKind::kLocations:
            result.decode_locations(table, bound);
            break;
    }
    result.ranges_.shrink_to_fit();
    return result;
}

int LineTable::line_at(int instruction_index) const {
    if (instruction_index < 0) return first_line_;
    if (instruction_index >= end_) return kNoLine;
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), instruction_index,
                                        [](int index, const Range& range) { return index < range.begin; });
    return after == ranges_.begin() ? kNoLine : std::prev(after)->line;
}

}  // namespace pyprof
