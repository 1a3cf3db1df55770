// SPDX-License-Identifier: Apache-2.0
#include "sample/made_code.h"

#include "target/proc_files.h"
#include "target/proc_parse.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <span>

namespace pyprof {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::size_t kLargestHeader = 4096;

// The target's own number in its pid namespace: what it names its perf map after.
pid_t own_pid_of(pid_t pid) {
    const auto status = read_file_at(AT_FDCWD, fmt::format("/proc/{}/status", pid), 64 << 10).value_or(std::string());
    const auto parsed = parse_status(status);
    return parsed && !parsed->namespace_ids.empty() ? parsed->namespace_ids.back() : pid;
}

std::vector<char> read_behind(int file, std::size_t from, std::size_t most) {
    std::vector<char> bytes;
    while (bytes.size() < most) {
        const std::size_t have = bytes.size();
        bytes.resize(std::min(most, have + (std::size_t{1} << 16)));
        const ssize_t got = ::pread(file, bytes.data() + have, bytes.size() - have, static_cast<off_t>(from + have));
        bytes.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (got <= 0) break;
    }
    return bytes;
}

}  // namespace

// As perf does: jit-PID.dump. The number is the writer's own, in its pid namespace.
bool MadeCode::is_jitdump(std::string_view path) {
    path.remove_prefix(std::min(path.size(), path.rfind('/') + 1));
    if (path.substr(0, 4) != "jit-" || !path.ends_with(".dump") || path.size() < 10) return false;
    path = path.substr(4, path.size() - 9);
    return std::all_of(path.begin(), path.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void MadeCode::open_files() {
    if (own_pid_ == 0) own_pid_ = own_pid_of(pid_);
    if (!perf_map_.file) perf_map_.file = open_regular(fmt::format("/proc/{}/root/tmp/perf-{}.map", living_thread_of(pid_), own_pid_));
    for (; opened_ < jitdumps_.size(); ++opened_) {
        Source source;
        source.file = open_regular(fmt::format("/proc/{}/root{}", living_thread_of(pid_), jitdumps_[opened_]));
        if (source.file) dumps_.push_back(std::move(source));
    }
}

void MadeCode::read_perf_map() {
    if (!perf_map_.file || perf_map_.taken >= kLargestFile) return;
    const auto bytes = read_behind(perf_map_.file.get(), perf_map_.taken, kLargestFile - perf_map_.taken);
    const std::string_view text(bytes.data(), bytes.size());
    const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is no whole line
    names_.add_perf_map(text.substr(0, whole));
    perf_map_.taken += whole;
}

void MadeCode::read_jitdump(Source& source) {
    if (source.is_broken || source.taken >= kLargestFile) return;
    if (source.taken == 0) {
        const auto head = read_behind(source.file.get(), 0, kLargestHeader);
        const auto size = JitNames::jitdump_header(std::as_bytes(std::span(head)));
        if (!size) return;  // it may be written yet
        source.taken = *size;
    }
    const auto bytes = read_behind(source.file.get(), source.taken, kLargestFile - source.taken);
    const auto whole = names_.add_jitdump_records(std::as_bytes(std::span(bytes)));
    source.is_broken = !whole;
    source.taken += whole.value_or(0);
}

std::optional<std::string_view> MadeCode::find(Address code) {
    open_files();
    read_perf_map();
    for (Source& source : dumps_) read_jitdump(source);
    return names_.find(code);
}

}  // namespace pyprof
