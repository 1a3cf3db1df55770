// SPDX-License-Identifier: Apache-2.0
//
// Keeps the last answer to each question; a refusal is kept as the absence of one.
#include "target/recording_target.h"

#include <algorithm>

namespace pyprof {
namespace {

bool is_same(const Mapping& a, const Mapping& b) {
    return a.start == b.start && a.end == b.end && a.file_offset == b.file_offset && a.inode == b.inode;
}

class RecordingModule final : public ModuleFile {
public:
    RecordingModule(std::unique_ptr<ModuleFile> inner, std::shared_ptr<Snapshot> snapshot, std::size_t index)
        : inner_(std::move(inner)), snapshot_(std::move(snapshot)), index_(index) {
        answers().segments = inner_->load_segments();
        answers().build_id = inner_->build_id();
    }

    std::optional<Section> find_section(std::string_view name) override {
        return answers().sections[std::string(name)] = inner_->find_section(name);
    }
    std::optional<Section> find_symbol(std::string_view name) override {
        return answers().symbols[std::string(name)] = inner_->find_symbol(name);
    }
    std::vector<Segment> load_segments() override { return answers().segments; }
    std::string build_id() override { return answers().build_id; }

private:
    ModuleAnswers& answers() { return snapshot_->modules[index_]; }

    std::unique_ptr<ModuleFile> inner_;
    std::shared_ptr<Snapshot> snapshot_;
    std::size_t index_;
};

}  // namespace

RecordingTarget::RecordingTarget(Target& inner)
    : inner_(inner), snapshot_(std::make_shared<Snapshot>()), memory_(inner.memory(), snapshot_->memory) {
    snapshot_->pid = inner.pid();
}

ReadOutcome RecordingTarget::RecordingMemory::read(std::span<const ReadRange> ranges) {
    const ReadOutcome outcome = inner_.read(ranges);
    for (const ReadRange& range : ranges.first(outcome.complete)) {
        // A full store loses the rest; the replay then finds those bytes unreadable, as it should.
        static_cast<void>(pages_.add(range.from, range.to));
    }
    return outcome;
}

Result<ProcessFacts> RecordingTarget::read_facts() {
    auto facts = inner_.read_facts();
    if (facts) snapshot_->facts = *facts;
    return facts;
}

Result<std::vector<Mapping>> RecordingTarget::read_mappings() {
    auto mappings = inner_.read_mappings();
    if (mappings) snapshot_->mappings = *mappings;
    return mappings;
}

Result<std::unique_ptr<ModuleFile>> RecordingTarget::open_module(const Mapping& mapping) {
    auto module = inner_.open_module(mapping);
    if (!module) return module;
    auto& modules = snapshot_->modules;
    auto known = std::find_if(modules.begin(), modules.end(), [&](const ModuleAnswers& answers) {
        return is_same(answers.mapping, mapping);
    });
    if (known == modules.end()) {
        modules.push_back({mapping, {}, {}, {}, {}});
        known = std::prev(modules.end());
    }
    const auto index = static_cast<std::size_t>(known - modules.begin());
    return std::make_unique<RecordingModule>(std::move(*module), snapshot_, index);
}

Result<std::vector<ThreadId>> RecordingTarget::read_threads() {
    auto threads = inner_.read_threads();
    if (threads) snapshot_->threads = *threads;
    return threads;
}

Activity RecordingTarget::read_activity(pid_t tid) {
    return snapshot_->thread_answers[tid].activity = inner_.read_activity(tid);
}

std::optional<std::uint64_t> RecordingTarget::read_switch_count(pid_t tid) {
    return snapshot_->thread_answers[tid].switch_count = inner_.read_switch_count(tid);
}

char RecordingTarget::read_state_letter(pid_t tid) {
    return snapshot_->thread_answers[tid].state_letter = inner_.read_state_letter(tid);
}

std::string RecordingTarget::read_thread_name(pid_t tid) {
    return snapshot_->thread_answers[tid].name = inner_.read_thread_name(tid);
}

}  // namespace pyprof
