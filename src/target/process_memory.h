// SPDX-License-Identifier: Apache-2.0
//
// The memory of a live process through process_vm_readv, which stands in this file alone. It reads; it
// never writes to the target and never stops it.
#pragma once

#include <pyprof/memory.h>

#include <sys/types.h>

#include <functional>
#include <optional>
#include <utility>

namespace pyprof {

class ProcessMemory final : public Memory {
public:
    // By the number of any thread that lives.
    explicit ProcessMemory(pid_t pid) : pid_(pid) {}
    // Where that thread has ended, `find` names another one; empty: none is left.
    void on_end(std::function<std::optional<pid_t>()> find) { find_another_ = std::move(find); }

    [[nodiscard]] ReadOutcome read(std::span<const ReadRange> ranges) override;
    [[nodiscard]] ReadCounters counters() const override { return counters_; }

private:
    // At most kRangesPerCall of them.
    [[nodiscard]] ReadOutcome read_batch(std::span<const ReadRange> ranges);

    pid_t pid_;
    std::function<std::optional<pid_t>()> find_another_;
    ReadCounters counters_;
};

}  // namespace pyprof
