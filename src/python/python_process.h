// SPDX-License-Identifier: Apache-2.0
//
// A target that was recognised as CPython: where its runtime is, which layout describes it, and how the
// ids that CPython keeps lead to the kernel's threads.
#pragma once

#include <pyprof/target.h>

#include "python/find_runtime.h"
#include "python/interpreters.h"

#include <tsl/robin_map.h>

#include <chrono>
#include <string>

namespace pyprof {

struct AttachOptions {
    // Search data segments where no symbol and no section tells. Costs tens of milliseconds in a process that
    // is not Python, so not while a launched program starts.
    bool may_scan = true;
    // How long to wait for an interpreter that is there and has not started yet.
    std::chrono::nanoseconds patience{0};
};

class PythonProcess {
public:
    // Finds the runtime and chooses the layout: kNotPython or a clear reason when that fails.
    static Result<PythonProcess> attach(Target& target, const AttachOptions& options = {});

    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] Address runtime() const { return runtime_; }
    [[nodiscard]] const FoundRuntime& found() const { return found_; }
    // "3.12.1", "3.13.5 free-threaded"; "3.9" where the last number is not known.
    [[nodiscard]] std::string version_text() const;

    // Without the main thread where it has ended by itself (pthread_exit): it stays in the interpreter's list.
    [[nodiscard]] ThreadList read_threads(Target& target);
    // The thread's number in our view of /proc; 0 when it can't be told.
    [[nodiscard]] pid_t tid_of(Target& target, const ThreadState& thread);
    // Forget what ids led to: threads have ended and their ids may come back.
    void forget_thread_ids() { tids_.clear(); }

private:
    pid_t read_tid_of_pthread(Target& target, std::uint64_t pthread);
    void learn_pthread_offset(Target& target, std::uint64_t main_pthread);

    Layout layout_;
    Address runtime_{};
    FoundRuntime found_;
    std::uint32_t pthread_tid_offset_ = 0;  // of `tid` in struct pthread; 0: not known
    tsl::robin_map<std::uint64_t, pid_t> tids_;  // by namespace tid
};

}  // namespace pyprof
