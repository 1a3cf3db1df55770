// SPDX-License-Identifier: Apache-2.0
//
// The commands and what each can be told. A command returns the exit code of the program; an Error is
// printed by the caller.
#pragma once

#include <pyprof/error.h>

#include "sample/sampler.h"

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pyprof {

struct RecordSettings {
    std::optional<pid_t> pid;
    std::vector<std::string> command;  // to launch; empty with a pid
    std::string output;                // empty: a name of its own in the working directory
    std::string format;                // empty: from the output's ending
    std::string stats;                 // file for the run's figures, empty: none
    double rate_hz = 100;
    std::optional<std::chrono::nanoseconds> duration;
    WhichThreads which = WhichThreads::kRunning;
    bool per_thread = false;
    bool functions_only = false;
    bool full_filenames = false;
    bool inverted = false;
    AsyncOptions async{AsyncMode::kRunning};
    int track_creation = 0;  // frames to note of each coroutine's creation; 0: nothing is written to the target
    bool nonblocking = false;
    bool native = false;
    bool native_all = false;
    bool debuginfod = false;
    bool quiet = false;
};
Result<int> run_record(const RecordSettings& settings);

struct TopSettings {
    std::optional<pid_t> pid;
    std::vector<std::string> command;  // to launch; empty with a pid
    double rate_hz = 100;
    std::chrono::milliseconds interval{1000};
    WhichThreads which = WhichThreads::kRunning;
    bool per_thread = false;
    bool with_lines = false;
    bool with_errors = false;
    bool native = false;
    AsyncMode async = AsyncMode::kOff;
    bool full_filenames = false;  // in what is saved
    bool nonblocking = false;
    bool batch = false;
    bool json = false;
    std::optional<std::uint64_t> count;  // intervals; empty: until the end
    std::size_t most_rows = 20;          // of the plain table; 0: all
};
Result<int> run_top(const TopSettings& settings);

struct DumpSettings {
    pid_t pid = 0;
    bool json = false;
    bool nonblocking = false;
    bool full_filenames = false;
    bool tasks = true;     // of asyncio
    bool native = false;
    bool native_all = false;
    std::string snapshot;  // file to record every read into
    std::string replay;    // snapshot to read instead of a process
};
Result<int> run_dump(const DumpSettings& settings);

struct DoctorSettings {
    std::optional<pid_t> pid;  // empty: only what holds for every process
    bool json = false;
};
Result<int> run_doctor(const DoctorSettings& settings);

struct WatchSettings {
    std::optional<pid_t> pid;
    std::vector<std::string> command;    // to launch; may be empty with no pid, too
    std::vector<std::string> functions;
    std::string commands;                // file to read commands from; empty: stdin
    std::optional<std::string> duration;  // instead of commands: so long, then the results
    double rate_hz = 100;
    WhichThreads which = WhichThreads::kRunning;
    bool nonblocking = false;
    bool json = false;
    bool quiet = false;
};
Result<int> run_watch(const WatchSettings& settings);
// As parse_rate, but without "max".
Result<double> parse_watch_rate(std::string_view text);

}  // namespace pyprof
