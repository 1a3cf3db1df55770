// SPDX-License-Identifier: Apache-2.0
//
// `pyprof watch`: reads commands from a prompt, a file or a pipe, and runs them while sampling goes on. What is
// asked for goes to stdout, notes and errors to stderr.
#include "base/clock.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/messages.h"
#include "cli/watch_command.h"
#include "cli/watch_input.h"
#include "live/watch_events.h"
#include "live/watch_report.h"
#include "live/watch_words.h"

#include <fmt/format.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;
using Words = WatchCommand::Words;

// A process that executed another program counts as not Python any more after this long.
constexpr nanoseconds kAnotherPatience = std::chrono::seconds(2);

}  // namespace

// --- what goes out ------------------------------------------------------------------------------

void WatchCommand::note(const std::string& text) {
    if (settings_.quiet) return;
    if (prompt_) {
        prompt_->print_above([&] { print_line(text); });
    } else {
        print_line("pyprof: " + text);
    }
}

Result<void> WatchCommand::print_results(std::string_view event) {
    target_.drain();
    const WatchResults found = session_.results();
    const std::string text = settings_.json ? results_json(found, event) : results_text(found);
    if (!prompt_) return print_out(text);
    Result<void> printed;
    prompt_->print_above([&] { printed = print_out(text); });
    return printed;
}

void WatchCommand::keep_going(const Result<void>& outcome, std::string_view where) {
    if (outcome) return;
    Error error = outcome.error();
    if (failure_ == 0) failure_ = static_cast<int>(error.code);
    if (settings_.json) {
        const auto told = print_out(error_json(error));
        if (!told) failure_ = static_cast<int>(told.error().code);
    }
    if (!where.empty()) error = with_context(std::move(error), where);
    print_error(error);
}

// --- while it waits -----------------------------------------------------------------------------

void WatchCommand::take_signals() {
    while (const auto signal = signals_.take()) {
        if (*signal == SIGUSR1) continue;
        if (*signal == SIGTSTP) {
            target_.hold();  // no thread of its is in our hand while we are stopped
            Signals::stop_process();
            target_.release();
            continue;
        }
        if (*signal == SIGINT) {
            ++interrupts_;
            if (prompt_) continue;  // a line or a wait is given up, not the session
            if (must_end_) {
                target_.stop();  // a stopped thread runs again before we go
                print_line("pyprof: interrupted again");
                std::_Exit(128 + SIGINT);
            }
        } else if (Launch* launch = target_.launched()) {
            launch->send(*signal);
        }
        must_end_ = true;
    }
}

Subject::Waiting WatchCommand::waiting(std::optional<nanoseconds> patience) {
    const auto end = monotonic_now() + patience.value_or(nanoseconds{0});
    interrupts_ = 0;
    return {[this, patience, end] {
                take_signals();
                return must_end_ || interrupts_ > 0 || (patience && monotonic_now() >= end);
            },
            [this](const Error& error) { note(error.message + "; still waiting for one"); }};
}

void WatchCommand::after_end() {
    const pid_t pid = target_.pid();
    switch (target_.after_end(waiting(kAnotherPatience))) {
        case WatchTarget::After::kGoesOn:
            note(fmt::format("process {} executed another program: Python {}", pid, target_.python()));
            return;
        case WatchTarget::After::kNotPython: note(fmt::format("process {} is no Python any more; its samples stay", pid)); break;
        case WatchTarget::After::kEnded: note(fmt::format("process {} has ended; its samples stay", pid)); break;
    }
    keep_going(print_results("ended"), "");
}

bool WatchCommand::serve(int input, int timeout_ms) {
    pollfd waits[] = {{signals_.fd(), POLLIN, 0}, {target_.finished_fd(), POLLIN, 0}, {input, POLLIN, 0}};
    ::poll(waits, 3, timeout_ms);
    take_signals();
    target_.drain();
    if (target_.is_finished()) after_end();
    return (waits[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

// --- where commands come from ---------------------------------------------------------------------

Words WatchCommand::completions(std::string_view line) {
    const std::string_view word = last_word(line);
    const std::string_view before = line.substr(0, line.size() - word.size());
    const auto words = split_words(before);
    Words found;
    if (!words || words->empty()) {
        for (const Command& command : commands()) found.emplace_back(command.name);
        return found;
    }
    if (words->front() == "remove") {
        for (const WatchName& name : session_.names()) found.push_back(name.text());
    } else if (words->front() == "add" || words->front() == "start") {
        target_.drain();
        for (const SeenFunction& function : session_.functions()) {
            found.push_back(function.name);
            const std::size_t slash = function.file_short.rfind('/');
            found.push_back(function.file_short.substr(slash == std::string::npos ? 0 : slash + 1) + ":" + function.name);
        }
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        // Names with blanks or quotes are no words; who wants them writes a glob.
        found.erase(std::remove_if(found.begin(), found.end(), [](const std::string& text) { return text.find_first_of(" \t'\"\\") != std::string::npos; }),
                    found.end());
    } else if (words->front() == "help") {
        for (const Command& command : commands()) found.emplace_back(command.name);
    }
    return found;
}

void WatchCommand::run_prompt() {
    const auto wait_for_key = [this] {
        while (true) {
            interrupts_ = 0;
            const bool has_input = serve(STDIN_FILENO, target_.is_sampling() ? kServeEveryMs : -1);
            if (must_end_) return WatchPrompt::Wake::kEnd;
            if (interrupts_ > 0) return WatchPrompt::Wake::kCancelled;
            if (has_input) return WatchPrompt::Wake::kInput;
        }
    };
    prompt_.emplace("(pyprof) ", wait_for_key, [this](std::string_view line) { return completions(line); },
                    WatchHistory(watch_history_path(std::getenv("XDG_STATE_HOME"), std::getenv("HOME"))));
    while (!is_leaving_ && !must_end_) {
        const auto line = prompt_->read_line();
        if (!line) break;
        keep_going(run_line(*line), "");
    }
    failure_ = 0;  // whoever sits there has read it
}

Result<void> WatchCommand::run_script() {
    auto script = WatchScript::open(settings_.commands);
    if (!script) return tl::unexpected(script.error());
    while (!is_leaving_) {
        const auto line = script->next_line([this](int fd) {
            while (!serve(fd, kServeEveryMs)) {
                if (must_end_) return false;
            }
            return true;
        });
        if (!line) return tl::unexpected(line.error());
        if (!*line) return {};
        keep_going(run_line(**line), fmt::format("line {}", script->line_number()));
    }
    return {};
}

int WatchCommand::finish_launched() {
    Launch& launch = *target_.launched();
    interrupts_ = 0;
    if (!launch.wait(nanoseconds{0}) && prompt_) print_line("waiting for the program to end; Ctrl-C leaves it running");
    while (true) {
        if (const auto status = launch.wait(std::chrono::milliseconds(kServeEveryMs))) return *status;
        take_signals();
        if (interrupts_ > 0 && prompt_) return 128 + SIGINT;
    }
}

Result<int> WatchCommand::run() {
    for (const std::string& name : settings_.functions) {
        const auto added = session_.add(name);
        if (!added) return tl::unexpected(added.error());
    }
    const bool is_prompt = settings_.commands.empty() && !settings_.duration && ::isatty(STDIN_FILENO) == 1;
    const bool reads_stdin = !settings_.duration && (settings_.commands.empty() || settings_.commands == "-");
    if (!settings_.command.empty()) {
        const auto launched = target_.launch(settings_.command, signals_.original_mask(), reads_stdin);
        if (!launched) return tl::unexpected(launched.error());
    }
    if (target_.has_target() || settings_.pid) keep_going(begin_sampling(settings_.pid), "");
    if (settings_.duration) {
        if (target_.is_sampling()) {
            keep_going(wait({"wait", *settings_.duration}), "");
            if (target_.is_sampling()) keep_going(print_results("results"), "");
        }
    } else if (is_prompt) {
        run_prompt();
    } else {
        keep_going(run_script(), "");
    }
    target_.stop();
    if (target_.launched() != nullptr) return finish_launched();
    if (failure_ == 0 && !is_prompt && has_sampled_ && !had_samples_ && session_.samples() == 0) {
        return tl::unexpected(no_samples(target_.pid(), settings_.which));
    }
    return failure_;
}

Result<double> parse_watch_rate(std::string_view text) {
    auto rate = parse_rate(text);
    if (rate && *rate == 0) return fail(ExitCode::kUsage, "watch needs a rate, not max", "the error of a time follows from the period");
    return rate;
}

Result<int> run_watch(const WatchSettings& settings) { return WatchCommand(settings).run(); }

}  // namespace pyprof
