// SPDX-License-Identifier: Apache-2.0
#include "live/sample_log.h"

#include <limits>

namespace pyprof {

namespace {

// Ticks carry jitter: half an interval is no hole.
bool goes_on(const SampleRecord& last, const SampleRecord& next) {
    if (last.is_crowd || next.is_crowd || last.stack != next.stack || last.marks != next.marks) return false;
    if (last.samples > std::numeric_limits<std::uint32_t>::max() - next.samples) return false;
    return next.when - next.weight - last.when <= next.weight / next.samples / 2;
}

}  // namespace

void SampleLog::add(const SampleRecord& record) {
    if (!is_whole_ || record.samples == 0) return;
    if (record.thread >= last_of_.size()) last_of_.resize(record.thread + 1, 0);
    std::size_t& last = last_of_[record.thread];
    if (last != 0 && goes_on(records_[last - 1], record)) {
        SampleRecord& run = records_[last - 1];
        run.samples += record.samples;
        run.weight += record.weight;
        run.when = record.when;
        run.tick = record.tick;
        return;
    }
    if (records_.size() == most_records_) {
        records_ = {};
        is_whole_ = false;
        return;
    }
    records_.push_back(record);
    last = records_.size();
}

void SampleLog::clear() {
    records_.clear();
    last_of_.clear();
    is_whole_ = true;
}

}  // namespace pyprof
