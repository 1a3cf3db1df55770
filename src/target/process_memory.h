// SPDX-License-Identifier: Apache-2.0
//
// The memory of a live process through process_vm_readv, which stands in this file alone. It reads; it
// never writes to the target and never stops it.
#pragma once

#include <pyprof/memory.h>

#include <sys/types.h>

namespace pyprof {

class ProcessMemory final : public Memory {
public:
    explicit ProcessMemory(pid_t pid) : pid_(pid) {}

    [[nodiscard]] ReadOutcome read(std::span<const ReadRange> ranges) override;
    [[nodiscard]] ReadCounters counters() const override { return counters_; }

private:
    // At most kRangesPerCall of them.
    [[nodiscard]] ReadOutcome read_batch(std::span<const ReadRange> ranges);

    pid_t pid_;
    ReadCounters counters_;
};

}  // namespace pyprof
