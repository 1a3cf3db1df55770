// SPDX-License-Identifier: Apache-2.0
#include "target/stopped.h"

#include <fmt/format.h>

namespace pyprof {

StoppedBy stopped_by(Target& target) {
    StoppedBy all = StoppedBy::kNobody;
    for (const ThreadId& thread : target.read_threads().value_or(std::vector<ThreadId>())) {
        const char letter = target.read_state_letter(thread.tid);
        if (letter == 'Z' || letter == 'X' || letter == '\0') continue;  // it has ended
        if (letter != 'T' && letter != 't') return StoppedBy::kNobody;
        if (all != StoppedBy::kSignal) all = letter == 'T' ? StoppedBy::kSignal : StoppedBy::kTracer;
    }
    return all;
}

std::string what_of(StoppedBy by) { return by == StoppedBy::kSignal ? "stopped by a signal" : "stopped by a tracer"; }

std::string remedy_of(StoppedBy by, pid_t pid) {
    return by == StoppedBy::kSignal ? fmt::format("kill -CONT {} wakes it", pid) : "it goes on when the tracer lets it";
}

}  // namespace pyprof
