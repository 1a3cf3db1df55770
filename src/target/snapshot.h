// SPDX-License-Identifier: Apache-2.0
//
// What a target answered, kept as a value: every byte that was read and every other answer. A user's
// problem becomes a test by way of one of these. It holds parts of the target's memory, so whoever writes
// one keeps it private.
#pragma once

#include "base/file_owner.h"
#include "target/page_store.h"

#include <pyprof/target.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

struct ThreadAnswers {
    Activity activity;
    std::optional<std::uint64_t> switch_count;
    char state_letter = '\0';
    std::string name;
};

// What was asked of a file, and what it said; an empty answer is one, too.
struct ModuleAnswers {
    Mapping mapping;  // that it was opened by
    std::string build_id;
    std::vector<ModuleFile::Segment> segments;
    std::map<std::string, std::optional<ModuleFile::Section>, std::less<>> sections;
    std::map<std::string, std::optional<ModuleFile::Section>, std::less<>> symbols;
};

struct Snapshot {
    pid_t pid = 0;
    ProcessFacts facts;
    std::vector<Mapping> mappings;
    std::vector<ThreadId> threads;
    std::map<pid_t, ThreadAnswers> thread_answers;
    std::vector<ModuleAnswers> modules;
    PageStore memory;
};

// The file: "PYPROFSN", a version (u32), then, compressed by zlib, records of a tag (u8), a length (u64)
// and that many bytes. Unknown tags are passed over.
std::vector<std::byte> encode_snapshot(const Snapshot& snapshot);
Result<Snapshot> decode_snapshot(std::span<const std::byte> file);
// The records without magic and compression, for fuzzing.
Result<Snapshot> decode_snapshot_records(std::span<const std::byte> records);

// Readable by its owner alone.
// A file that was not there before is given to `owner`.
Result<void> write_snapshot(const Snapshot& snapshot, const std::string& path, std::optional<FileOwner> owner = {});
Result<Snapshot> read_snapshot(const std::string& path);

}  // namespace pyprof
