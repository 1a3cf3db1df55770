// SPDX-License-Identifier: Apache-2.0
//
// record --track-creation: has the interpreter note where each coroutine is made, by setting
// coroutine_origin_tracking_depth in the threads that run a loop, and puts it back. The only thing that pyprof ever
// writes to a program. What was done is told as lines for the user.
#pragma once

#include "python/asyncio_tasks.h"
#include "python/python_process.h"
#include "target/ptrace_stop.h"
#include "target/write_back.h"

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include <memory>
#include <string>
#include <vector>

namespace pyprof {

class CreationTracking {
public:
    // `may_stop`: a thread is held for the moment in which it is written to, so that it can't end meanwhile.
    static Result<std::unique_ptr<CreationTracking>> start(pid_t pid, int depth, bool may_stop);

    // Looks for loops that are not tracked yet.
    void look();
    // Lets go of a thread that came to a stop too late. Call it often.
    void settle();
    // Puts everything back. Call it before the target is let go.
    void finish();
    // What there is to tell since the last call.
    [[nodiscard]] std::vector<std::string> take_messages();

private:
    struct Thread {
        Address state{};
        std::uint64_t pthread = 0;
        pid_t tid = 0;
        WriteBack::Word word;
        bool is_written = false;
    };
    CreationTracking(std::unique_ptr<Target> target, PythonProcess process, WriteBack writer, int depth, bool may_stop);
    void track(const ThreadState& state);
    [[nodiscard]] bool hold(pid_t tid);

    std::unique_ptr<Target> target_;
    PythonProcess process_;
    StackTable stacks_;
    AsyncioReader asyncio_;
    WriteBack writer_;
    ThreadStopper stopper_;
    int depth_;
    bool may_stop_;
    bool is_finished_ = false;
    std::vector<Thread> threads_;  // that were written to, or left alone for good
    std::vector<std::string> messages_;
};

}  // namespace pyprof
