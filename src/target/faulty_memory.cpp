// SPDX-License-Identifier: Apache-2.0
//
// A failing read is shortened to the ranges before the bad one, as process_vm_readv does it.
#include "target/faulty_memory.h"

#include <algorithm>

namespace pyprof {

bool FaultyMemory::is_in_gap(const ReadRange& range) const {
    return std::any_of(plan_.gaps.begin(), plan_.gaps.end(), [&](const FaultPlan::Gap& gap) {
        if (is_within(range.from, gap.start, gap.end)) return true;
        return raw(range.from) < raw(gap.start) && distance(range.from, gap.start) < range.to.size();
    });
}

ReadOutcome FaultyMemory::read(std::span<const ReadRange> ranges) {
    ++reads_;
    std::size_t good = ranges.size();
    ReadFault fault = ReadFault::kNone;
    if (plan_.bad_read != 0 && reads_ >= plan_.bad_read && reads_ - plan_.bad_read < plan_.bad_count &&
        plan_.complete < good) {
        good = plan_.complete;
        fault = plan_.fault;
    }
    for (std::size_t i = 0; i < good; ++i) {
        if (!is_in_gap(ranges[i])) continue;
        good = i;
        fault = ReadFault::kUnmapped;
    }
    ReadOutcome outcome = inner_.read(ranges.first(good));
    if (plan_.distort) {
        for (std::size_t i = 0; i < outcome.complete; ++i) plan_.distort(ranges[i].from, ranges[i].to);
    }
    if (outcome.fault == ReadFault::kNone) outcome.fault = fault;
    return outcome;
}

}  // namespace pyprof
