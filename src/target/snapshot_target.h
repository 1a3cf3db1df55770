// SPDX-License-Identifier: Apache-2.0
//
// A Target that answers from a snapshot. It knows only what was asked when the snapshot was taken.
#pragma once

#include "target/faulty_memory.h"
#include "target/snapshot.h"

#include <pyprof/target.h>

#include <memory>

namespace pyprof {

class SnapshotTarget final : public Target {
public:
    explicit SnapshotTarget(Snapshot snapshot);
    SnapshotTarget(const SnapshotTarget&) = delete;
    SnapshotTarget& operator=(const SnapshotTarget&) = delete;

    // From now on reads fail as `plan` says.
    void inject(FaultPlan plan);
    // Reads since then.
    [[nodiscard]] std::uint64_t reads() const { return faulty_ ? faulty_->reads() : 0; }

    pid_t pid() const override { return snapshot_.pid; }
    Memory& memory() override { return *memory_; }
    Result<ProcessFacts> read_facts() override { return snapshot_.facts; }
    Result<std::vector<Mapping>> read_mappings() override { return snapshot_.mappings; }
    Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) override;
    Result<std::vector<ThreadId>> read_threads() override { return snapshot_.threads; }
    Activity read_activity(pid_t tid) override { return answers_of(tid).activity; }
    std::optional<std::uint64_t> read_switch_count(pid_t tid) override {
        return answers_of(tid).switch_count;
    }
    char read_state_letter(pid_t tid) override { return answers_of(tid).state_letter; }
    std::string read_thread_name(pid_t tid) override { return answers_of(tid).name; }
    void forget_thread(pid_t) override {}
    bool has_ended() override { return false; }
    Result<std::unique_ptr<Stop>> stop() override { return std::make_unique<Stop>(); }

private:
    class StoredMemory final : public Memory {
    public:
        explicit StoredMemory(const PageStore& pages) : pages_(pages) {}
        ReadOutcome read(std::span<const ReadRange> ranges) override;

    private:
        const PageStore& pages_;
    };
    [[nodiscard]] ThreadAnswers answers_of(pid_t tid) const;

    Snapshot snapshot_;
    StoredMemory stored_;
    std::unique_ptr<FaultyMemory> faulty_;
    Memory* memory_;  // one of the two
};

// From a file.
Result<std::unique_ptr<Target>> open_snapshot(const std::string& path);

}  // namespace pyprof
