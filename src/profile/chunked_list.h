// SPDX-License-Identifier: Apache-2.0
//
// A list that only grows and whose elements never move, so that one thread can append while others
// read without a lock. Chunk k holds kFirst << k elements: 23 chunks reach every 32-bit index, and the
// array of their pointers never grows either. It must never hand out an element that is not yet
// published: size_ is stored (release) after the element is built and loaded (acquire) before it is
// looked at.
#pragma once

#include <pyprof/error.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace pyprof {

template <class T>
class ChunkedList {
public:
    ChunkedList() = default;
    ChunkedList(const ChunkedList&) = delete;
    ChunkedList& operator=(const ChunkedList&) = delete;
    ~ChunkedList() {
        for (std::uint32_t i = 0; i < size(); ++i) std::destroy_at(slot(i));
        for (std::size_t k = 0; k < kChunks; ++k) {
            T* chunk = chunks_[k].load(std::memory_order_relaxed);
            if (chunk != nullptr) std::allocator<T>{}.deallocate(chunk, chunk_size(k));
        }
    }

    // Writer only.
    template <class... Arguments>
    std::uint32_t append(Arguments&&... arguments) {
        const std::uint32_t index = size_.load(std::memory_order_relaxed);
        check(index < kLimit, "a table of the profile is full");
        const Place place = place_of(index);
        if (place.offset == 0) {
            T* chunk = std::allocator<T>{}.allocate(chunk_size(place.chunk));
            chunks_[place.chunk].store(chunk, std::memory_order_relaxed);  // published by size_
        }
        std::construct_at(slot(index), std::forward<Arguments>(arguments)...);
        size_.store(index + 1, std::memory_order_release);
        return index;
    }

    // Any thread.
    [[nodiscard]] std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
    [[nodiscard]] const T& operator[](std::uint32_t index) const {
        check(index < size(), "an id that its table does not hold");
        return *slot(index);
    }
    // The writer changes an element only through what is atomic in it.
    [[nodiscard]] T& at(std::uint32_t index) {
        check(index < size(), "an id that its table does not hold");
        return *slot(index);
    }

private:
    static constexpr std::uint64_t kFirst = 1024;
    static constexpr std::size_t kChunks = 23;
    static constexpr std::uint32_t kLimit = 0xFFFF'FFFF;

    struct Place {
        std::size_t chunk;
        std::size_t offset;
    };
    static constexpr std::size_t chunk_size(std::size_t chunk) { return kFirst << chunk; }
    static constexpr Place place_of(std::uint32_t index) {
        const std::uint64_t from_first = index + kFirst;
        const auto chunk = static_cast<std::size_t>(std::bit_width(from_first) - std::bit_width(kFirst));
        return {chunk, from_first - chunk_size(chunk)};
    }
    static_assert(place_of(kLimit - 1).chunk < kChunks);

    [[nodiscard]] T* slot(std::uint32_t index) const {
        const Place place = place_of(index);
        return chunks_[place.chunk].load(std::memory_order_relaxed) + place.offset;
    }

    std::array<std::atomic<T*>, kChunks> chunks_{};
    std::atomic<std::uint32_t> size_{0};
};

}  // namespace pyprof
