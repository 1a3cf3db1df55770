// SPDX-License-Identifier: Apache-2.0
//
// Around any Target: passes every call on and keeps what it answers as a Snapshot. It changes no answer.
#pragma once

#include "target/snapshot.h"

#include <pyprof/target.h>

#include <memory>

namespace pyprof {

class RecordingTarget final : public Target {
public:
    // `inner` must outlive this and every module opened through it.
    explicit RecordingTarget(Target& inner);
    RecordingTarget(const RecordingTarget&) = delete;
    RecordingTarget& operator=(const RecordingTarget&) = delete;

    // What has been asked so far. Modules opened through this add to it while they live.
    [[nodiscard]] const Snapshot& snapshot() const { return *snapshot_; }

    pid_t pid() const override { return inner_.pid(); }
    Memory& memory() override { return memory_; }
    Result<ProcessFacts> read_facts() override;
    Result<std::vector<Mapping>> read_mappings() override;
    Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) override;
    Result<std::vector<ThreadId>> read_threads() override;
    Activity read_activity(pid_t tid) override;
    std::optional<std::uint64_t> read_switch_count(pid_t tid) override;
    char read_state_letter(pid_t tid) override;
    std::string read_thread_name(pid_t tid) override;
    void forget_thread(pid_t tid) override { inner_.forget_thread(tid); }
    bool has_ended() override { return inner_.has_ended(); }
    std::vector<ProcessFacts> read_descendants() override { return inner_.read_descendants(); }
    Result<std::unique_ptr<Stop>> stop() override { return inner_.stop(); }

private:
    class RecordingMemory final : public Memory {
    public:
        RecordingMemory(Memory& inner, PageStore& pages) : inner_(inner), pages_(pages) {}
        ReadOutcome read(std::span<const ReadRange> ranges) override;
        ReadCounters counters() const override { return inner_.counters(); }

    private:
        Memory& inner_;
        PageStore& pages_;
    };

    Target& inner_;
    std::shared_ptr<Snapshot> snapshot_;  // shared with modules
    RecordingMemory memory_;
};

}  // namespace pyprof
