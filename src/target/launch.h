// SPDX-License-Identifier: Apache-2.0
//
// Starting the program to be profiled. Its stdin, stdout, stderr, terminal and process group stay as they
// are, unless asked for otherwise; it lives on when we end, however that comes; its exit status can be read without taking that of
// any other child of ours.
#pragma once

#include "base/unique_fd.h"

#include <pyprof/error.h>

#include <sys/types.h>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pyprof {

// Who the program runs as, when we are root on behalf of someone (sudo).
struct RunAs {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;  // the supplementary ones
};

struct LaunchRequest {
    std::vector<std::string> command;                              // argv; the first is looked up in PATH
    std::vector<std::pair<std::string, std::string>> environment;  // set on top of ours
    std::optional<RunAs> run_as;
    // What the program finds blocked and set to default again: our own mask and our ignoring of SIGPIPE
    // must not pass on to it. Signals that were ignored when we started stay so (nohup).
    sigset_t signal_mask{};
    std::vector<int> default_signals;
    // Nothing to read on stdin and a process group of its own: the terminal and its Ctrl-C are the profiler's.
    bool in_background = false;
};

class Launch {
public:
    // Returns when the program has been executed. ExitCode::kNotFound or kNotExecutable where it can't be.
    static Result<Launch> start(const LaunchRequest& request);

    Launch(Launch&& other) noexcept;
    Launch& operator=(Launch&&) = delete;
    // Leaves the program running; if it has ended, its status is taken so that no zombie stays.
    ~Launch();

    [[nodiscard]] pid_t pid() const { return pid_; }
    // Its exit status, 128 + N after signal N; empty when it runs on after `patience`.
    std::optional<int> wait(std::chrono::nanoseconds patience);
    int wait();
    // Passes a signal on; nothing happens once the program has been waited for.
    void send(int signal);

private:
    Launch(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
    bool has_ended(int timeout_ms);

    pid_t pid_ = 0;
    UniqueFd pidfd_;
    std::optional<int> status_;
};

}  // namespace pyprof
