// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof watch` samples at the moment: nothing, a process that was named, or the program that it launched.
// Sampling begins and ends any number of times; all samples go to the session. It never ends a program.
#pragma once

#include "cli/attach.h"
#include "live/watch_session.h"
#include "sample/recorder.h"

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

class WatchTarget {
public:
    struct Sampling {
        double rate_hz = 100;
        WhichThreads which = WhichThreads::kRunning;
        bool nonblocking = false;
    };
    enum class After { kGoesOn, kEnded, kNotPython };

    explicit WatchTarget(WatchSession& session) : session_(session) {}

    Result<void> launch(const std::vector<std::string>& command, const sigset_t& signal_mask, bool in_background);
    // Of this process, else of the last one. What was sampled before is stopped, but only once the other is
    // attached. False: the launched program ended or never became Python.
    Result<bool> start(std::optional<pid_t> pid, const Sampling& sampling, const Subject::Waiting& waiting);
    bool stop();  // false: nothing was sampled
    // See Recorder.
    void hold() {
        if (recorder_) recorder_->hold();
    }
    void release() {
        if (recorder_) recorder_->release();
    }

    [[nodiscard]] bool is_sampling() const { return recorder_.has_value(); }
    [[nodiscard]] bool has_target() const { return current_ != nullptr; }
    [[nodiscard]] pid_t pid() const { return current_ == nullptr ? 0 : current_->pid(); }
    [[nodiscard]] std::string python() const { return attached_ ? attached_->process.version_text() : std::string(); }
    [[nodiscard]] const std::vector<std::string>& command() const { return facts_.command; }
    [[nodiscard]] double rate_hz() const { return sampling_.rate_hz; }
    [[nodiscard]] const RunFigures& figures() { return recorder_->profile().figures; }
    // Readable when sampling has ended by itself: call after_end() then. -1: nothing is sampled.
    [[nodiscard]] int finished_fd() const { return recorder_ ? recorder_->finished_fd() : -1; }
    [[nodiscard]] bool is_finished() const { return recorder_ && recorder_->is_finished(); }
    void drain();
    After after_end(const Subject::Waiting& waiting);
    [[nodiscard]] Launch* launched() { return launched_ ? launched_->launched() : nullptr; }

private:
    void sample(Attached attached);

    WatchSession& session_;
    std::unique_ptr<Subject> launched_;
    std::unique_ptr<Subject> given_;
    Subject* current_ = nullptr;
    std::optional<Attached> attached_;
    std::optional<Recorder> recorder_;  // of what is attached
    Sampling sampling_;
    ProcessFacts facts_;
};

}  // namespace pyprof
