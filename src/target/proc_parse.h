// SPDX-License-Identifier: Apache-2.0
//
// The texts of /proc as values (proc(5)). Pure functions over text that may be cut anywhere: a line or
// a field that can't be read is left out, never guessed, and nothing grows beyond what the text holds.
#pragma once

#include <pyprof/target.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

// /proc/PID/maps. Newlines in paths (\012 there) are put back; " (deleted)" becomes a flag.
std::vector<Mapping> parse_maps(std::string_view text);

// /proc/PID/stat and /proc/PID/task/TID/stat.
struct ProcStat {
    std::string name;  // may hold anything, brackets and newlines too
    char state = 0;
    pid_t parent = 0;
    std::int64_t thread_count = 0;
    std::uint64_t start_ticks = 0;  // since boot
};
std::optional<ProcStat> parse_stat(std::string_view text);
// The state alone, without allocating; 0 where it can't be read.
char parse_state_letter(std::string_view stat_text);

// /proc/PID/status, as far as rights and namespaces go.
struct ProcStatus {
    pid_t thread_group = 0;
    pid_t parent = 0;
    pid_t tracer = 0;
    std::uint32_t effective_uid = 0;
    std::uint32_t effective_gid = 0;
    std::vector<pid_t> namespace_ids;  // outermost (ours) first; empty where the kernel has no NSpid
    std::uint64_t permitted_capabilities = 0;
    std::uint64_t effective_capabilities = 0;
    int seccomp_mode = 0;
};
std::optional<ProcStatus> parse_status(std::string_view text);

// /proc/PID/task/TID/syscall.
Activity parse_syscall(std::string_view text);

// /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst): time in line for a processor in ns, its second
// field, and how often the thread got one, its third.
std::optional<std::uint64_t> parse_run_delay(std::string_view text);
std::optional<std::uint64_t> parse_switch_count(std::string_view text);

// /proc/PID/cmdline: arguments that end in NUL, the last perhaps not.
std::vector<std::string> parse_command_line(std::string_view text);

// /proc/PID/task/TID/children: numbers and blanks.
std::vector<pid_t> parse_children(std::string_view text);

}  // namespace pyprof
