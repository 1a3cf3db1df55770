// SPDX-License-Identifier: Apache-2.0
//
// Samples in the order in which they came, for formats that show time. What a thread goes on doing is one record, so that
// it grows with changes and not with time; beyond its limit it keeps nothing, since a part of the time would look like
// the whole.
#pragma once

#include "sample/epoch.h"

#include <cstddef>
#include <vector>

namespace pyprof {

class SampleLog {
public:
    static constexpr std::size_t kMostRecords = 1'000'000;  // some 60 MB

    explicit SampleLog(std::size_t most_records = kMostRecords) : most_records_(most_records) {}

    void add(const SampleRecord& record);
    void clear();
    [[nodiscard]] bool is_whole() const { return is_whole_; }  // since the last clear()
    [[nodiscard]] const std::vector<SampleRecord>& records() const { return records_; }

private:
    std::size_t most_records_;
    std::vector<SampleRecord> records_;
    std::vector<std::size_t> last_of_;  // by thread: its last record, plus one
    bool is_whole_ = true;
};

}  // namespace pyprof
