// SPDX-License-Identifier: Apache-2.0
//
// Samples in the order of ticks, for one purpose: how far a sampled time or share may lie from the true one. `watch`
// and `top` tell their errors from it, by one rule. Within each
// period one moment is drawn at random (src/sample/pacer.h), so the variance of a sum is that of its periods,
// added up, and half the squared difference of neighbouring ticks is an estimate of it that holds whether the
// program changes within a period or every minute: docs/watch.md. What it keeps is bounded: beyond kMaxRuns
// every second block of ticks is left out, and those that stay stand for all.
#pragma once

#include "sample/epoch.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace pyprof {

class SampleSeries {
public:
    static constexpr std::uint64_t kBlockTicks = 256;
    static constexpr std::size_t kMaxRuns = 2'000'000;  // of 8 bytes
    // What Jeffreys' prior adds to the variance of a count, in samples: a count of few is not as sure as it looks.
    static constexpr double kPrior = 0.5;

    explicit SampleSeries(std::size_t max_runs = kMaxRuns) : max_runs_(max_runs) {}

    // Records of one thread come in the order of time; each has one sample of every tick from its first to its last,
    // or is a crowd.
    // `key` is the caller's name for what was seen, such as its stack.
    void add(const SampleRecord& record, std::uint32_t key);

    [[nodiscard]] std::uint64_t ticks() const { return ticks_; }  // up to the last sample
    [[nodiscard]] std::size_t runs() const { return run_count_; }
    [[nodiscard]] bool is_thinned() const { return level_ > 0; }

    // A row is a set of keys whose samples are added up. All in square nanoseconds.
    struct Spread {
        double variance = 0;    // of the row's time
        double with_first = 0;  // covariance with row 0: for shares of it
    };
    // Each row once: `rows_of` gives the rows of a key.
    using RowsOf = std::function<std::span<const std::uint32_t>(std::uint32_t key)>;
    [[nodiscard]] std::vector<Spread> spreads(const RowsOf& rows_of, std::size_t rows) const;
    // The mean square of what one sample stands for, in square nanoseconds.
    [[nodiscard]] double square_weight() const;

private:
    struct Run {
        std::uint32_t key = 0;
        std::uint8_t first = 0;  // tick of the block
        std::uint8_t last = 0;
        std::uint16_t width = 1;  // samples at each of its ticks
    };
    struct Block {
        std::uint64_t number = 0;
        std::vector<Run> runs;
        double square_weights = 0;  // of its samples, added up
        std::uint64_t samples = 0;
    };

    Block* block_at(std::uint64_t number);
    void thin_out();
    [[nodiscard]] bool keeps(std::uint64_t number) const { return number % (std::uint64_t{1} << level_) == 0; }
    [[nodiscard]] std::uint64_t boundaries() const;

    std::size_t max_runs_;
    std::vector<Block> blocks_;  // by number
    std::size_t run_count_ = 0;
    unsigned level_ = 0;
    std::uint64_t begin_ = 0;  // the first tick
    bool has_begun_ = false;
    std::uint64_t ticks_ = 0;
    double square_weights_ = 0;  // of all samples, those left out included
    std::uint64_t samples_ = 0;
    double shortest_ = 0;  // what a sample that was not late stands for
};

}  // namespace pyprof
