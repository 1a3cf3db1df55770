// SPDX-License-Identifier: Apache-2.0
//
// A copy of the beginning of one object: a generous piece where one read can have it, else only what
// the caller cannot do without (objects stand close to the ends of mappings, too).
#pragma once

#include <pyprof/memory.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pyprof {

class ObjectCopy {
public:
    static constexpr std::size_t kGenerous = 256;

    // False when not even `minimum` bytes (at most kGenerous) can be read.
    [[nodiscard]] bool read(Memory& memory, Address object, std::size_t minimum) {
        object_ = object;
        size_ = kGenerous;
        if (read_bytes(memory, object, buffer_)) return true;
        size_ = minimum;
        return minimum <= kGenerous && read_bytes(memory, object, std::span(buffer_).first(minimum));
    }

    // A field within the `minimum` that was read.
    template <class T>
    [[nodiscard]] T field(std::int32_t offset) const {
        return load<T>(buffer_.data(), static_cast<std::size_t>(offset));
    }

    // `to.size()` bytes from `offset` of the object; read anew where the copy ends before.
    [[nodiscard]] bool copy_to(Memory& memory, std::size_t offset, std::span<std::byte> to) const {
        if (offset <= size_ && to.size() <= size_ - offset) {
            std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
            return true;
        }
        return read_bytes(memory, object_ + offset, to);
    }

private:
    Address object_{};
    std::size_t size_ = 0;
    std::array<std::byte, kGenerous> buffer_{};
};

}  // namespace pyprof
