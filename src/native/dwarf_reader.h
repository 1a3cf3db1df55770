// SPDX-License-Identifier: Apache-2.0
//
// Numbers as DWARF writes them, out of bytes that may say anything. It never leaves its range: once something
// does not fit, it has failed for good and gives zeroes, and every loop over it ends.
#pragma once

#include <pyprof/address.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace pyprof {

class DwarfReader {
public:
    explicit DwarfReader(std::span<const std::byte> bytes, std::size_t position = 0)
        : bytes_(bytes), position_(position) {
        if (position > bytes.size()) fail();
    }

    [[nodiscard]] std::size_t position() const { return position_; }
    [[nodiscard]] bool is_at_end() const { return position_ >= bytes_.size(); }
    [[nodiscard]] bool has_failed() const { return has_failed_; }
    void fail() {
        has_failed_ = true;
        position_ = bytes_.size();
    }

    template <class T>
    [[nodiscard]] T take() {
        T value{};
        if (sizeof(T) > bytes_.size() - position_) {
            fail();
            return value;
        }
        std::memcpy(&value, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return value;
    }

    [[nodiscard]] std::uint64_t take_uleb() {
        std::uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            const auto byte = take<std::uint8_t>();
            if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
            if ((byte & 0x80U) == 0) return value;
        }
    }

    [[nodiscard]] std::int64_t take_sleb() {
        std::uint64_t value = 0;
        for (unsigned shift = 0;;) {
            const auto byte = take<std::uint8_t>();
            if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
            shift += 7;
            if ((byte & 0x80U) != 0) continue;
            if ((byte & 0x40U) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
            return static_cast<std::int64_t>(value);
        }
    }

    [[nodiscard]] std::span<const std::byte> take_bytes(std::uint64_t size) {
        if (size > bytes_.size() - position_) {
            fail();
            return {};
        }
        const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(size));
        position_ += taken.size();
        return taken;
    }
    void skip(std::int64_t bytes) {
        const auto to = static_cast<std::int64_t>(position_) + bytes;
        if (to < 0 || to > static_cast<std::int64_t>(bytes_.size())) return fail();
        position_ = static_cast<std::size_t>(to);
    }
    [[nodiscard]] const std::byte* here() const { return bytes_.data() + position_; }

private:
    std::span<const std::byte> bytes_;
    std::size_t position_;
    bool has_failed_ = false;
};

}  // namespace pyprof
