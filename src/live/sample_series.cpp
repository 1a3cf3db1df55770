// SPDX-License-Identifier: Apache-2.0
#include "live/sample_series.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

namespace pyprof {

namespace {

// Late ticks stand for several periods. Which of a run they were is not kept: as one, they weigh most.
double square_weights_of(const SampleRecord& record, double period) {
    const double whole = static_cast<double>(record.weight.count());
    if (record.is_crowd) return whole * whole / record.samples;
    const double others = static_cast<double>(record.samples - 1);
    const double last = std::max(whole - others * period, period);
    return others * period * period + last * last;
}

// What the thread of a row gained or lost between two ticks.
struct Change {
    std::uint32_t row = 0;
    std::uint32_t tick = 0;
    std::int32_t by = 0;
};

}  // namespace

SampleSeries::Block* SampleSeries::block_at(std::uint64_t number) {
    if (!keeps(number)) return nullptr;
    // Records come nearly in order: it is the last block or one just before.
    auto at = blocks_.end();
    while (at != blocks_.begin() && std::prev(at)->number > number) --at;
    if (at != blocks_.begin() && std::prev(at)->number == number) return &*std::prev(at);
    Block block;
    block.number = number;
    return &*blocks_.insert(at, std::move(block));
}

void SampleSeries::thin_out() {
    ++level_;
    std::vector<Block> kept;
    run_count_ = 0;
    for (Block& block : blocks_) {
        if (!keeps(block.number)) continue;
        run_count_ += block.runs.size();
        kept.push_back(std::move(block));
    }
    blocks_ = std::move(kept);
}

void SampleSeries::add(const SampleRecord& record, std::uint32_t key) {
    if (record.samples == 0) return;
    const std::uint64_t before = record.is_crowd ? 0 : record.samples - 1;
    std::uint64_t first = record.tick - std::min(record.tick, before);
    if (!has_begun_) {
        has_begun_ = true;
        begin_ = first;
    }
    first = std::max(first, begin_) - begin_;
    const std::uint64_t end = std::max(record.tick, begin_) + 1 - begin_;
    ticks_ = std::max(ticks_, end);

    const double mean = static_cast<double>(record.weight.count()) / record.samples;
    shortest_ = samples_ == 0 ? mean : std::min(mean, shortest_);
    const double squares = square_weights_of(record, shortest_);
    square_weights_ += squares;
    samples_ += record.samples;

    constexpr std::uint32_t kWidest = std::numeric_limits<std::uint16_t>::max();
    const auto width = static_cast<std::uint16_t>(record.is_crowd ? std::min(record.samples, kWidest) : 1);
    for (std::uint64_t tick = first; tick < end;) {
        const std::uint64_t number = tick / kBlockTicks;
        const std::uint64_t block_end = std::min(end, (number + 1) * kBlockTicks);
        if (Block* block = block_at(number)) {
            const std::uint64_t count = record.is_crowd ? record.samples : block_end - tick;
            block->runs.push_back({key, static_cast<std::uint8_t>(tick % kBlockTicks), static_cast<std::uint8_t>((block_end - 1) % kBlockTicks), width});
            block->square_weights += squares * static_cast<double>(count) / record.samples;
            block->samples += count;
            ++run_count_;
        }
        tick = block_end;
    }
    while (run_count_ > max_runs_ && blocks_.size() > 1) thin_out();
}

double SampleSeries::square_weight() const { return samples_ == 0 ? 0 : square_weights_ / static_cast<double>(samples_); }

// Pairs of neighbouring ticks of which both are in one kept block; a block in which nothing ran counts, too.
std::uint64_t SampleSeries::boundaries() const {
    if (ticks_ == 0) return 0;
    const std::uint64_t last = (ticks_ - 1) / kBlockTicks;
    const std::uint64_t whole = (last + (std::uint64_t{1} << level_) - 1) >> level_;  // kept ones below the last
    std::uint64_t count = whole * (kBlockTicks - 1);
    if (keeps(last)) count += (ticks_ - 1) % kBlockTicks;
    return count;
}

std::vector<SampleSeries::Spread> SampleSeries::spreads(const RowsOf& rows_of, std::size_t rows) const {
    std::vector<Spread> sums(rows);
    std::vector<Change> changes;
    std::array<double, kBlockTicks> of_first{};  // what row 0 gained or lost at each tick
    for (const Block& block : blocks_) {
        changes.clear();
        of_first.fill(0);
        const std::uint64_t length = std::min(kBlockTicks, ticks_ - block.number * kBlockTicks);
        const auto note = [&](std::uint32_t row, std::uint32_t tick, std::int32_t by) {
            if (tick == 0 || tick >= length) return;
            changes.push_back({row, tick, by});
            if (row == 0) of_first[tick] += by;
        };
        for (const Run& run : block.runs) {
            for (const std::uint32_t row : rows_of(run.key)) {
                note(row, run.first, run.width);
                note(row, run.last + 1U, -std::int32_t{run.width});
            }
        }
        std::sort(changes.begin(), changes.end(),
                  [](const Change& a, const Change& b) { return std::pair(a.row, a.tick) < std::pair(b.row, b.tick); });
        const double weight = block.samples == 0 ? 0 : block.square_weights / static_cast<double>(block.samples);
        for (std::size_t i = 0; i < changes.size();) {
            double by = 0;
            const Change& first = changes[i];
            for (; i < changes.size() && changes[i].row == first.row && changes[i].tick == first.tick; ++i) by += changes[i].by;
            sums[first.row].variance += by * by * weight;
            sums[first.row].with_first += by * of_first[first.tick] * weight;
        }
    }
    const std::uint64_t pairs = boundaries();
    const double scale = pairs == 0 ? 0 : static_cast<double>(ticks_) / static_cast<double>(pairs) / 2;
    for (Spread& sum : sums) {
        sum.variance *= scale;
        sum.with_first *= scale;
    }
    return sums;
}

}  // namespace pyprof
