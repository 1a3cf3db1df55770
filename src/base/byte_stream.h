// SPDX-License-Identifier: Apache-2.0
//
// Numbers and texts to and from bytes, little-endian, for files of our own. The reader is bounded: once
// something does not fit, it has failed for good and gives zeroes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

class ByteWriter {
public:
    template <std::unsigned_integral T>
    void put(T value) {
        for (std::size_t i = 0; i < sizeof value; ++i) {
            bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
        }
    }
    void put_bytes(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    void put_text(std::string_view text) {
        put(static_cast<std::uint32_t>(text.size()));
        put_bytes(std::as_bytes(std::span(text)));
    }
    [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <std::unsigned_integral T>
    [[nodiscard]] T take() {
        std::uint64_t value = 0;
        const auto bytes = take_bytes(sizeof(T));
        for (std::size_t i = 0; i < bytes.size(); ++i)
            value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
        return static_cast<T>(value);
    }
    // Empty when there are fewer than `size` left.
    [[nodiscard]] std::span<const std::byte> take_bytes(std::uint64_t size) {
        if (has_failed_ || size > rest_.size()) {
            has_failed_ = true;
            return {};
        }
        const auto taken = rest_.first(static_cast<std::size_t>(size));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    [[nodiscard]] std::string take_text() {
        const auto bytes = take_bytes(take<std::uint32_t>());
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
    [[nodiscard]] bool has_failed() const { return has_failed_; }
    void fail() { has_failed_ = true; }

private:
    std::span<const std::byte> rest_;
    bool has_failed_ = false;
};

}  // namespace pyprof
