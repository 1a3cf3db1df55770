// SPDX-License-Identifier: Apache-2.0
//
// The commands of `pyprof watch`.
#include "base/clock.h"
#include "base/parse.h"
#include "cli/messages.h"
#include "cli/shared_options.h"
#include "cli/watch_command.h"
#include "live/watch_events.h"
#include "live/watch_words.h"
#include "output/describe.h"
#include "output/output_file.h"
#include "target/invoking_user.h"

#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;
using Words = WatchCommand::Words;

Result<void> no_more_words(const Words& words) {
    if (words.size() == 1) return {};
    return fail(ExitCode::kUsage, fmt::format("{} takes nothing", words.front()), "help lists the commands");
}

}  // namespace

const std::vector<WatchCommand::Command>& WatchCommand::commands() {
    static const std::vector<Command> all = {
        {"start", "start [--pid N] [--rate R] [-f NAME...]", "sample this process, or go on with the last one", &WatchCommand::start},
        {"stop", "stop", "stop sampling and let go of the process; the samples stay", &WatchCommand::stop},
        {"add", "add NAME...", "also show these functions, from the beginning on", &WatchCommand::add},
        {"remove", "remove NAME...", "show them no longer; their samples stay", &WatchCommand::remove},
        {"list", "list", "the names", &WatchCommand::list},
        {"results", "results", "time of each function so far", &WatchCommand::results},
        {"status", "status", "what is sampled, and how well", &WatchCommand::status},
        {"reset", "reset", "forget all samples and begin anew", &WatchCommand::reset},
        {"save", "save [-f FORMAT] FILE", "write all samples as a profile", &WatchCommand::save},
        {"wait", "wait [TIME]", "sample for so long (10s, 2m), or until the process ends", &WatchCommand::wait},
        {"help", "help [COMMAND]", "this list", &WatchCommand::help},
        {"exit", "exit", "leave; quit and Ctrl-D do the same", &WatchCommand::leave},
        {"quit", "quit", "leave", &WatchCommand::leave},
    };
    return all;
}

Result<void> WatchCommand::begin_sampling(std::optional<pid_t> pid) {
    const auto started = target_.start(pid, sampling_, waiting(std::nullopt));
    if (!started) return tl::unexpected(started.error());
    if (!*started) return fail(ExitCode::kNotPython, fmt::format("process {} ended, or was no Python so far", pid.value_or(target_.pid())));
    has_sampled_ = true;
    note(fmt::format("sampling process {}: Python {}, {} samples a second", target_.pid(), target_.python(), target_.rate_hz()));
    return {};
}

Result<void> WatchCommand::start(const Words& words) {
    constexpr const char* kUsage = "start [--pid N] [--rate R] [-f NAME...]";
    std::optional<pid_t> pid;
    WatchTarget::Sampling sampling = sampling_;
    Words names;
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        const bool has_value = i + 1 < words.size();
        if ((word == "-p" || word == "--pid") && has_value) {
            const auto number = parse_unsigned(words[++i]);
            if (!number || *number == 0 || *number > 1U << 22) {
                return fail(ExitCode::kUsage, fmt::format("'{}' is no process id", words[i]), "give the number that `ps` shows");
            }
            pid = static_cast<pid_t>(*number);
        } else if ((word == "-r" || word == "--rate") && has_value) {
            const auto rate = parse_watch_rate(words[++i]);
            if (!rate) return tl::unexpected(rate.error());
            sampling.rate_hz = *rate;
        } else if ((word == "-f" || word == "--function") && has_value) {
            while (i + 1 < words.size() && words[i + 1].front() != '-') names.push_back(words[++i]);
        } else {
            return fail(ExitCode::kUsage, fmt::format("start does not know '{}'", word), kUsage);
        }
    }
    if (target_.is_sampling() && (!pid || *pid == target_.pid())) {
        return fail(ExitCode::kUsage, fmt::format("process {} is being sampled", target_.pid()), "stop it first");
    }
    names.insert(names.begin(), "add");
    if (names.size() > 1) {
        auto added = add(names);
        if (!added) return added;
    }
    sampling_ = sampling;
    const bool has_others = session_.samples() > 0 && pid && *pid != target_.pid();
    auto begun = begin_sampling(pid);
    if (begun && has_others) note("the samples so far stay and are added to; reset forgets them");
    return begun;
}

Result<void> WatchCommand::stop(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    if (!target_.stop()) return fail(ExitCode::kUsage, "nothing is being sampled", "use start");
    note(fmt::format("stopped; {} samples are kept", session_.samples()));
    return {};
}

Result<void> WatchCommand::add(const Words& words) {
    if (words.size() < 2) return fail(ExitCode::kUsage, "add needs a name", "add NAME...");
    for (std::size_t i = 1; i < words.size(); ++i) {
        const auto added = session_.add(words[i]);
        if (!added) return tl::unexpected(added.error());
        if (!*added) {
            note(fmt::format("{} is there already", words[i]));
            continue;
        }
        target_.drain();
        if (session_.samples() == 0) continue;
        const std::vector<SeenFunction>& seen = session_.functions();
        const WatchName& name = session_.names().back();
        if (std::any_of(seen.begin(), seen.end(), [&](const SeenFunction& function) { return name.matches(function); })) continue;
        std::string text = fmt::format("{} is not seen yet", words[i]);
        const auto near = near_misses(name, seen);
        for (std::size_t k = 0; k < near.size(); ++k) text += (k == 0 ? "; seen: " : ", ") + label_of(*near[k]);
        note(text);
    }
    return {};
}

Result<void> WatchCommand::remove(const Words& words) {
    if (words.size() < 2) return fail(ExitCode::kUsage, "remove needs a name", "remove NAME...");
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (!session_.remove(words[i])) return fail(ExitCode::kUsage, fmt::format("{} is not among the names", words[i]), "list shows them");
    }
    return {};
}

Result<void> WatchCommand::list(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    return print_out(settings_.json ? names_json(session_.names()) : names_text(session_.names()));
}

Result<void> WatchCommand::results(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    return print_results("results");
}

Result<void> WatchCommand::status(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    target_.drain();
    WatchStatus status;
    status.is_sampling = target_.is_sampling();
    status.pid = target_.pid();
    status.python = target_.python();
    status.command = joined(target_.command());
    status.rate_hz = target_.rate_hz();
    status.samples = session_.samples();
    status.names = session_.names().size();
    if (status.is_sampling) status.figures = target_.figures();
    status.reached_hz = reached_rate(status.figures);
    return print_out(settings_.json ? status_json(status) : status_text(status));
}

Result<void> WatchCommand::reset(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    target_.drain();
    had_samples_ = had_samples_ || session_.samples() > 0;
    session_.reset(monotonic_now());
    return {};
}

Result<void> WatchCommand::save(const Words& words) {
    constexpr const char* kUsage = "save [-f FORMAT] FILE";
    std::string path;
    std::string name;
    for (std::size_t i = 1; i < words.size(); ++i) {
        if ((words[i] == "-f" || words[i] == "--format") && i + 1 < words.size()) {
            name = words[++i];
        } else if (path.empty()) {
            path = words[i];
        } else {
            return fail(ExitCode::kUsage, "save takes one file", kUsage);
        }
    }
    if (path.empty()) return fail(ExitCode::kUsage, "save needs a file", kUsage);
    const Format* format = name.empty() ? format_of_path(path) : find_format(name);
    if (format == nullptr) {
        std::string known;
        for (const Format& each : formats()) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
        return fail(ExitCode::kUsage, name.empty() ? fmt::format("no format has the ending of {}", path) : fmt::format("unknown format {}", name),
                    "use -f FORMAT; known are: " + known);
    }
    target_.drain();
    const auto profile = session_.resolved();
    if (!profile || profile->total_samples == 0) return fail(ExitCode::kNoSamples, "nothing was sampled yet; nothing is written");
    auto output = OutputFile::open(path, invoking_owner());
    if (!output) return tl::unexpected(output.error());
    const auto written = output->commit([&](std::ostream& out) { format->write(*profile, {}, out); });
    if (!written) return tl::unexpected(written.error());
    note(fmt::format("{} samples are in {}", profile->total_samples, path));
    return {};
}

Result<void> WatchCommand::wait(const Words& words) {
    if (words.size() > 2) return fail(ExitCode::kUsage, "wait takes one time", "wait 10s");
    if (!target_.is_sampling()) return fail(ExitCode::kUsage, "nothing is being sampled", "use start");
    std::optional<nanoseconds> end;
    if (words.size() == 2) {
        const auto duration = parse_duration(words[1]);
        if (!duration) return tl::unexpected(duration.error());
        end = monotonic_now() + *duration;
    }
    interrupts_ = 0;
    while (target_.is_sampling() && !must_end_ && (interrupts_ == 0 || !prompt_)) {
        int patience = kServeEveryMs;
        if (end) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*end - monotonic_now());
            if (left.count() <= 0) break;
            patience = static_cast<int>(std::min<std::int64_t>(patience, left.count() + 1));
        }
        serve(-1, patience);
    }
    return {};
}

Result<void> WatchCommand::help(const Words& words) {
    std::string text;
    for (const Command& command : commands()) {
        if (words.size() > 1 && words[1] != command.name) continue;
        text += fmt::format("{:<42} {}\n", command.usage, command.help);
    }
    if (text.empty()) return fail(ExitCode::kUsage, fmt::format("no command {}", words[1]), "help lists the commands");
    if (words.size() == 1) text += "NAME is a function, Class.method, module:function, file.py:function, or a glob such as 'Page.*'\n";
    return print_out(text);
}

Result<void> WatchCommand::leave(const Words& words) {
    if (auto none = no_more_words(words); !none) return none;
    is_leaving_ = true;
    return {};
}

Result<void> WatchCommand::run_line(std::string_view line) {
    const auto words = split_words(line);
    if (!words) return tl::unexpected(words.error());
    if (words->empty()) return {};
    for (const Command& command : commands()) {
        if (words->front() == command.name) return (this->*command.run)(*words);
    }
    Words known;
    for (const Command& command : commands()) known.emplace_back(command.name);
    const std::string guess = did_you_mean(words->front(), known);
    return fail(ExitCode::kUsage, fmt::format("no command '{}'", words->front()), guess.empty() ? "help lists the commands" : guess);
}

}  // namespace pyprof
