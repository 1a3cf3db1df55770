// SPDX-License-Identifier: Apache-2.0
//
// `pyprof watch` at work: a session, what it samples, and the commands that act on both. watch_commands.cpp has what each
// command does, watch.cpp where commands come from and what goes on meanwhile. A command that fails never ends the session.
#pragma once

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/watch_target.h"
#include "live/watch_prompt.h"
#include "live/watch_session.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

class WatchCommand {
public:
    using Words = std::vector<std::string>;

    explicit WatchCommand(const WatchSettings& settings) : settings_(settings), signals_({SIGTSTP}), target_(session_) {
        sampling_ = {settings.rate_hz, settings.which, settings.nonblocking};
    }
    Result<int> run();

private:
    struct Command {
        const char* name;
        const char* usage;
        const char* help;
        Result<void> (WatchCommand::*run)(const Words& words);
    };
    static const std::vector<Command>& commands();

    Result<void> start(const Words& words);
    Result<void> stop(const Words& words);
    Result<void> add(const Words& words);
    Result<void> remove(const Words& words);
    Result<void> list(const Words& words);
    Result<void> results(const Words& words);
    Result<void> status(const Words& words);
    Result<void> reset(const Words& words);
    Result<void> save(const Words& words);
    Result<void> wait(const Words& words);
    Result<void> help(const Words& words);
    Result<void> leave(const Words& words);

    Result<void> run_line(std::string_view line);
    void keep_going(const Result<void>& outcome, std::string_view where);
    Result<void> run_script();
    void run_prompt();
    Result<void> begin_sampling(std::optional<pid_t> pid);
    Subject::Waiting waiting(std::optional<std::chrono::nanoseconds> patience);
    bool serve(int input, int timeout_ms);  // true: there is input
    void take_signals();
    void after_end();
    void note(const std::string& text);
    Result<void> print_results(std::string_view event);
    Words completions(std::string_view line);
    int finish_launched();

    static constexpr int kServeEveryMs = 50;

    WatchSettings settings_;
    Signals signals_;
    WatchSession session_;
    WatchTarget target_;
    WatchTarget::Sampling sampling_;
    std::optional<WatchPrompt> prompt_;
    int failure_ = 0;        // the exit code of the first command that failed
    bool is_leaving_ = false;
    bool must_end_ = false;  // a signal that ends waiting, and in a script all later waiting, too
    int interrupts_ = 0;     // by Ctrl-C since it was last asked
    bool has_sampled_ = false;
    bool had_samples_ = false;  // before a reset
};

}  // namespace pyprof
