// SPDX-License-Identifier: Apache-2.0
//
// When two spans of one thread are one. A span must never swallow time in which the thread was not
// seen: what lies between two spans is a hole of its own, and exporters show it as such.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pyprof {

// `next` follows `last` without a hole. Ticks carry jitter, so half an interval is none.
template <class Span>
bool follows(const Span& last, const Span& next) {
    const auto hole = next.begin - (last.begin + last.weight);
    const auto interval = next.weight / std::max<std::uint32_t>(next.samples, 1);
    return hole <= interval / 2 && last.samples <= std::numeric_limits<std::uint32_t>::max() - next.samples;
}

template <class Span>
void join(Span& last, const Span& next) {
    last.samples += next.samples;
    last.weight += next.weight;
}

}  // namespace pyprof
