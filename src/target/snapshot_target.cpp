// SPDX-License-Identifier: Apache-2.0
//
// Answers that were never recorded are those of a thread that has gone or a file that can't be opened.
#include "target/snapshot_target.h"

#include <fmt/format.h>

#include <algorithm>

namespace pyprof {
namespace {

class SnapshotModule final : public ModuleFile {
public:
    explicit SnapshotModule(ModuleAnswers answers) : answers_(std::move(answers)) {}

    std::optional<Section> find_section(std::string_view name) override {
        return find(answers_.sections, name);
    }
    std::optional<Section> find_symbol(std::string_view name) override {
        return find(answers_.symbols, name);
    }
    std::vector<Segment> load_segments() override { return answers_.segments; }
    std::string build_id() override { return answers_.build_id; }

private:
    template <class Answers>
    static std::optional<Section> find(const Answers& answers, std::string_view name) {
        const auto found = answers.find(name);
        return found == answers.end() ? std::nullopt : found->second;
    }

    ModuleAnswers answers_;
};

}  // namespace

SnapshotTarget::SnapshotTarget(Snapshot snapshot)
    : snapshot_(std::move(snapshot)), stored_(snapshot_.memory), memory_(&stored_) {}

void SnapshotTarget::inject(FaultPlan plan) {
    faulty_ = std::make_unique<FaultyMemory>(stored_, std::move(plan));
    memory_ = faulty_.get();
}

ReadOutcome SnapshotTarget::StoredMemory::read(std::span<const ReadRange> ranges) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (!pages_.read(ranges[i].from, ranges[i].to)) return {i, ReadFault::kUnmapped};
    }
    return {ranges.size(), ReadFault::kNone};
}

ThreadAnswers SnapshotTarget::answers_of(pid_t tid) const {
    const auto found = snapshot_.thread_answers.find(tid);
    if (found != snapshot_.thread_answers.end()) return found->second;
    ThreadAnswers gone;
    gone.activity.kind = Activity::Kind::kGone;
    return gone;
}

Result<std::unique_ptr<ModuleFile>> SnapshotTarget::open_module(const Mapping& mapping) {
    const auto found =
        std::find_if(snapshot_.modules.begin(), snapshot_.modules.end(), [&](const ModuleAnswers& m) {
            return m.mapping.start == mapping.start && m.mapping.inode == mapping.inode;
        });
    if (found != snapshot_.modules.end()) return std::make_unique<SnapshotModule>(*found);
    return fail(ExitCode::kFailure, fmt::format("the snapshot does not hold '{}'", mapping.path));
}

Result<std::unique_ptr<Target>> open_snapshot(const std::string& path) {
    auto snapshot = read_snapshot(path);
    if (!snapshot) return tl::unexpected<Error>(std::move(snapshot.error()));
    return std::make_unique<SnapshotTarget>(std::move(*snapshot));
}

}  // namespace pyprof
