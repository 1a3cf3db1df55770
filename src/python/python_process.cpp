// SPDX-License-Identifier: Apache-2.0
#include "python/python_process.h"

#include "python/layouts.h"
#include "python/runtime_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

namespace pyprof {

namespace {

// nptl/descr.h of glibc on x86-64: `tid` stands here since 2.x of long ago; learned anew where it does not.
constexpr std::uint32_t kGlibcTidOffset = 0x2d0;
constexpr std::size_t kPthreadSearchBytes = 2'048;

constexpr std::chrono::milliseconds kLookAgain{1};
constexpr std::uint32_t kMicroAndLevel = 0xffff;  // of PY_VERSION_HEX; all zero where only "3.N" is known

// Once more as long as the interpreter is there but has no state yet.
Result<FoundRuntime> find_started(Target& target, const FindOptions& options, std::chrono::nanoseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (true) {
        auto found = find_runtime(target, options);
        if (!found || found->is_initialised) return found;
        if (std::chrono::steady_clock::now() >= end) {
            return fail(ExitCode::kNotPython, fmt::format("the Python interpreter of process {} has not started yet", target.pid()),
                        "try again in a moment");
        }
        std::this_thread::sleep_for(kLookAgain);
    }
}

}  // namespace

Result<PythonProcess> PythonProcess::attach(Target& target, const AttachOptions& options) {
    Memory& memory = target.memory();
    FindOptions find;
    find.may_scan = options.may_scan;
    find.probe = [&memory](Address runtime, int minor) {
        const Layout* layout = layout_of(3, minor);
        return layout != nullptr && is_runtime(memory, *layout, runtime);
    };
    auto found = find_started(target, find, options.patience);
    if (!found) return tl::unexpected(found.error());
    if (!found->has_debug_offsets && (found->version_hex == 0 || found->version_how == kVersionByWalk)) {
        if (const int minor = probe_minor(memory, found->runtime); minor != 0) {
            found->version_hex = 0x03000000U | static_cast<std::uint32_t>(minor) << 16;
            found->version_how = kVersionByWalk;
        }
    }

    std::array<std::byte, kDebugOffsetsBytes> start{};
    std::size_t readable = start.size();
    while (readable > 0 && !read_bytes(memory, found->runtime, std::span(start).first(readable))) readable /= 2;
    auto layout = layout_for(version_from_hex(found->version_hex), std::span(start).first(readable));
    if (!layout) return tl::unexpected(layout.error());

    PythonProcess process;
    process.layout_ = *layout;
    process.runtime_ = found->runtime;
    if (found->version_hex != 0 && !layout->from_debug_offsets) {
        process.layout_.version = version_from_hex(found->version_hex);
    }
    process.found_ = std::move(*found);
    return process;
}

std::string PythonProcess::version_text() const {
    const bool is_exact = layout_.from_debug_offsets || (found_.version_hex & kMicroAndLevel) != 0;
    std::string text = is_exact ? to_string(layout_.version)
                                : fmt::format("{}.{}", layout_.version.major, layout_.version.minor);
    if (layout_.free_threaded) text += " free-threaded";
    return text;
}

ThreadList PythonProcess::read_threads(Target& target) {
    ThreadList list = read_thread_list(target.memory(), layout_, runtime_);
    if (target.read_state_letter(target.pid()) != 'Z') return list;
    const auto has_ended = [&](const ThreadState& thread) {
        const pid_t tid = tid_of(target, thread);
        return tid == target.pid() || tid == 0;  // 0: up to 3.10 the number stands in struct pthread, where the kernel clears it
    };
    list.threads.erase(std::remove_if(list.threads.begin(), list.threads.end(), has_ended), list.threads.end());
    return list;
}

pid_t PythonProcess::tid_of(Target& target, const ThreadState& thread) {
    pid_t in_namespace = static_cast<pid_t>(thread.native_thread_id);
    if (!has(layout_.thread.native_thread_id)) {
        if (pthread_tid_offset_ == 0 && thread.is_main) learn_pthread_offset(target, thread.pthread);
        in_namespace = read_tid_of_pthread(target, thread.pthread);
    }
    if (in_namespace <= 0) return 0;
    auto known = tids_.find(static_cast<std::uint64_t>(in_namespace));
    if (known == tids_.end()) {
        const auto threads = target.read_threads();
        if (!threads) return 0;
        tids_.clear();
        for (const ThreadId& id : *threads) tids_[static_cast<std::uint64_t>(id.namespace_tid)] = id.tid;
        known = tids_.find(static_cast<std::uint64_t>(in_namespace));
    }
    return known == tids_.end() ? 0 : known->second;
}

pid_t PythonProcess::read_tid_of_pthread(Target& target, std::uint64_t pthread) {
    const std::uint32_t offset = pthread_tid_offset_ == 0 ? kGlibcTidOffset : pthread_tid_offset_;
    return read_value<std::int32_t>(target.memory(), Address{pthread} + offset).value_or(0);
}

// The main thread's tid is the pid: where glibc's offset does not hold it, the first place that does is
// taken (musl keeps it elsewhere).
void PythonProcess::learn_pthread_offset(Target& target, std::uint64_t main_pthread) {
    const auto threads = target.read_threads();
    if (!threads) return;
    const auto main = std::find_if(threads->begin(), threads->end(),
                                   [&](const ThreadId& id) { return id.tid == target.pid(); });
    if (main == threads->end()) return;
    const auto holds_tid = [&](std::uint32_t offset) {
        return read_value<std::int32_t>(target.memory(), Address{main_pthread} + offset).value_or(0) ==
               main->namespace_tid;
    };
    if (holds_tid(kGlibcTidOffset)) {
        pthread_tid_offset_ = kGlibcTidOffset;
        return;
    }
    for (std::uint32_t offset = 0; offset < kPthreadSearchBytes; offset += 4) {
        if (!holds_tid(offset)) continue;
        pthread_tid_offset_ = offset;
        return;
    }
}

}  // namespace pyprof
