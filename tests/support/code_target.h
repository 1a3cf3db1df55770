// SPDX-License-Identifier: Apache-2.0
//
// A process that is nothing but mapped files with call frame information written by hand.
#pragma once

#include <pyprof/target.h>

#include <map>
#include <string>

namespace pyprof::test {

class CodeTarget final : public Target {
public:
    // Maps `pages` pages of executable code at `start`; addresses of the file are those in memory less
    // `start`.
    void map_code(std::uint64_t start, const std::string& path, ModuleFile::Contents eh_frame) {
        Mapping mapping;
        mapping.start = Address{start};
        mapping.end = Address{start + kSize};
        mapping.readable = mapping.executable = true;
        mapping.inode = path.empty() ? 0 : 1 + std::hash<std::string>{}(path) % 1000;
        mapping.path = path;
        mappings[start] = mapping;
        files_[path] = std::move(eh_frame);
    }

    pid_t pid() const override { return 1; }
    Memory& memory() override { return memory_; }
    Result<ProcessFacts> read_facts() override { return ProcessFacts{}; }
    Result<std::vector<Mapping>> read_mappings() override {
        ++readings;
        std::vector<Mapping> all;
        for (const auto& [start, mapping] : mappings) all.push_back(mapping);
        return all;
    }
    Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) override {
        if (mapping.path == "/gone") return fail(ExitCode::kFailure, "cannot open '/gone'");
        return std::make_unique<File>(files_[mapping.path]);
    }
    Result<std::vector<ThreadId>> read_threads() override { return std::vector<ThreadId>{}; }
    Activity read_activity(pid_t) override { return {}; }
    std::optional<std::uint64_t> read_switch_count(pid_t) override { return {}; }
    char read_state_letter(pid_t) override { return 'R'; }
    std::string read_thread_name(pid_t) override { return {}; }
    void forget_thread(pid_t) override {}
    bool has_ended() override { return false; }
    Result<std::unique_ptr<Stop>> stop() override { return std::make_unique<Stop>(); }

    static constexpr std::uint64_t kSize = 0x10000;
    std::map<std::uint64_t, Mapping> mappings;
    int readings = 0;

private:
    class File final : public ModuleFile {
    public:
        explicit File(Contents eh_frame) : eh_frame_(std::move(eh_frame)) {}
        std::optional<Section> find_section(std::string_view) override { return {}; }
        std::optional<Section> find_symbol(std::string_view) override { return {}; }
        std::vector<Segment> load_segments() override { return {{FileAddress{0}, 0, kSize, kSize, false}}; }
        std::string build_id() override { return {}; }
        std::optional<Contents> read_section(std::string_view name) override {
            if (name != ".eh_frame" || eh_frame_.bytes.empty()) return {};
            return eh_frame_;
        }

    private:
        Contents eh_frame_;
    };
    class NoMemory final : public Memory {
        ReadOutcome read(std::span<const ReadRange>) override { return {0, ReadFault::kUnmapped}; }
    };

    std::map<std::string, ModuleFile::Contents> files_;
    NoMemory memory_;
};

}  // namespace pyprof::test
