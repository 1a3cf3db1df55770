// SPDX-License-Identifier: Apache-2.0
//
// A bounded queue between exactly one producer thread and one consumer thread, without locks. It never
// blocks and never allocates after its construction; what does not fit is the producer's to count.
#pragma once

#include <pyprof/error.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace pyprof {

template <class T>
class SpscRing {
public:
    // `capacity` is a power of two: positions run on and are masked when used.
    explicit SpscRing(std::size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<T[]>(capacity)) {
        check(std::has_single_bit(capacity), "the capacity of a ring is a power of two");
    }
    SpscRing(const SpscRing&) = delete;
    SpscRing& operator=(const SpscRing&) = delete;

    // Producer only. False when full; `value` is then left as it was.
    [[nodiscard]] bool try_push(T&& value) {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - known_head_ > mask_) {
            known_head_ = head_.load(std::memory_order_acquire);
            if (tail - known_head_ > mask_) return false;
        }
        slots_[tail & mask_] = std::move(value);
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }
    [[nodiscard]] bool try_push(const T& value) { return try_push(T(value)); }

    // Consumer only. False when empty.
    [[nodiscard]] bool try_pop(T& value) {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (head == known_tail_) {
            known_tail_ = tail_.load(std::memory_order_acquire);
            if (head == known_tail_) return false;
        }
        value = std::move(slots_[head & mask_]);
        head_.store(head + 1, std::memory_order_release);
        return true;
    }

    [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

private:
    // Each side's fields stand on cache lines of their own, with its last sight of the other side, so
    // that a push or a pop touches the other's line only when it seems full or empty.
    static constexpr std::size_t kLine = 64;

    const std::size_t mask_;
    const std::unique_ptr<T[]> slots_;
    alignas(kLine) std::atomic<std::size_t> tail_{0};  // next to be written
    std::size_t known_head_ = 0;                       // producer's
    alignas(kLine) std::atomic<std::size_t> head_{0};  // next to be read
    std::size_t known_tail_ = 0;                       // consumer's
};

}  // namespace pyprof
