// SPDX-License-Identifier: Apache-2.0
//
// Whether a copy took about as long as such copies do. One that took much longer was interrupted: the program may have
// gone through whole rounds between its parts, so that it shows a moment that never was. Nothing new may be proved by it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace pyprof {

class ReadPace {
public:
    // A copy of so many ranges and bytes took `took`. True where that is near the usual; the first one always is.
    bool note(std::size_t ranges, std::size_t bytes, std::chrono::nanoseconds took) {
        const double cost = static_cast<double>(ranges) + static_cast<double>(bytes) / kBytesARange;
        const double pace = static_cast<double>(took.count()) / std::max(cost, 1.0);
        if (usual_ == 0) usual_ = pace;
        const bool is_usual = pace <= kMost * usual_;
        usual_ *= pace > usual_ ? 1 + kStep : 1 - kStep;
        return is_usual;
    }

private:
    static constexpr double kBytesARange = 2'048;  // so many cost about as much as a range
    static constexpr double kMost = 2;
    static constexpr double kStep = 1.0 / 16;

    double usual_ = 0;  // about the median, in ns a range
};

}  // namespace pyprof
