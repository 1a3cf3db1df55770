// SPDX-License-Identifier: Apache-2.0
//
// `pyprof watch`: reads commands from a prompt, a file or a pipe, and runs them while sampling goes on. What is
// asked for goes to stdout, notes and errors to stderr. A command that fails never ends the session.
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/messages.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "cli/watch_input.h"
#include "cli/watch_target.h"
#include "live/watch_prompt.h"
#include "live/watch_report.h"
#include "live/watch_session.h"
#include "live/watch_words.h"
#include "output/output_file.h"
#include "target/invoking_user.h"

#include <fmt/format.h>
#include <pyprof/exporter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;
using Words = std::vector<std::string>;

constexpr int kServeEveryMs = 50;
// A process that executed another program counts as not Python any more after this long.
constexpr nanoseconds kAnotherPatience = std::chrono::seconds(2);

class WatchCommand {
public:
    explicit WatchCommand(const WatchSettings& settings) : settings_(settings), target_(session_) {
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
    Subject::Waiting waiting(std::optional<nanoseconds> patience);
    bool serve(int input, int timeout_ms);  // true: there is input
    void take_signals();
    void after_end();
    void note(const std::string& text);
    Result<void> print_results(std::string_view event);
    Words completions(std::string_view line);
    int finish_launched();

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

using Writer = rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::ASCII<>>;

Result<void> print_json(const std::function<void(Writer&)>& fill, const char* event) {
    rapidjson::StringBuffer buffer;
    Writer writer(buffer);
    writer.StartObject();
    writer.Key("schema");
    writer.Int(1);
    writer.Key("event");
    writer.String(event);
    fill(writer);
    writer.EndObject();
    return print_out(std::string(buffer.GetString(), buffer.GetSize()) + '\n');
}

void put_text(Writer& writer, const char* key, const std::string& text) {
    writer.Key(key);
    writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void WatchCommand::keep_going(const Result<void>& outcome, std::string_view where) {
    if (outcome) return;
    Error error = outcome.error();
    if (failure_ == 0) failure_ = static_cast<int>(error.code);
    if (settings_.json) {
        const auto told = print_json([&](Writer& writer) {
            writer.Key("code");
            writer.Int(static_cast<int>(error.code));
            put_text(writer, "message", error.message);
            put_text(writer, "hint", error.hint);
        }, "error");
        if (!told) failure_ = static_cast<int>(told.error().code);
    }
    if (!where.empty()) error = with_context(std::move(error), where);
    print_error(error);
}

// --- commands -----------------------------------------------------------------------------------

Result<void> no_more_words(const Words& words) {
    if (words.size() == 1) return {};
    return fail(ExitCode::kUsage, fmt::format("{} takes nothing", words.front()), "help lists the commands");
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
    if (!pid && !target_.has_target()) return fail(ExitCode::kUsage, "no process given", "use start --pid N");
    if (target_.is_sampling() && (!pid || *pid == target_.pid())) {
        return fail(ExitCode::kUsage, fmt::format("process {} is being sampled", target_.pid()), "stop it first");
    }
    names.insert(names.begin(), "add");
    if (names.size() > 1) {
        const auto added = add(names);
        if (!added) return added;
    }
    sampling_ = sampling;
    const bool has_others = session_.samples() > 0 && pid && *pid != target_.pid();
    const auto begun = begin_sampling(pid);
    if (begun && has_others) note("the samples so far stay and are added to; reset forgets them");
    return begun;
}

Result<void> WatchCommand::stop(const Words& words) {
    if (const auto none = no_more_words(words); !none) return none;
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
    if (const auto none = no_more_words(words); !none) return none;
    if (settings_.json) {
        return print_json([&](Writer& writer) {
            writer.Key("names");
            writer.StartArray();
            for (const WatchName& name : session_.names()) writer.String(name.text().data(), static_cast<rapidjson::SizeType>(name.text().size()));
            writer.EndArray();
        }, "list");
    }
    std::string text;
    for (const WatchName& name : session_.names()) text += name.text() + "\n";
    return print_out(text.empty() ? "no names\n" : text);
}

Result<void> WatchCommand::results(const Words& words) {
    if (const auto none = no_more_words(words); !none) return none;
    return print_results("results");
}

Result<void> WatchCommand::status(const Words& words) {
    if (const auto none = no_more_words(words); !none) return none;
    target_.drain();
    const bool samples = target_.is_sampling();
    const RunFigures figures = samples ? target_.figures() : RunFigures{};
    if (settings_.json) {
        return print_json([&](Writer& writer) {
            writer.Key("sampling");
            writer.Bool(samples);
            writer.Key("pid");
            writer.Int(target_.pid());
            put_text(writer, "python", target_.python());
            writer.Key("rate_hz");
            writer.Double(target_.rate_hz());
            writer.Key("samples");
            writer.Uint64(session_.samples());
            writer.Key("refused");
            writer.Uint64(figures.refused);
            writer.Key("late");
            writer.Uint64(figures.late);
            writer.Key("stops");
            writer.Uint64(figures.stops);
        }, "status");
    }
    if (!samples) return print_out(fmt::format("nothing is being sampled; {} samples, {} names\n", session_.samples(), session_.names().size()));
    return print_out(escape_control(fmt::format(
        "process {}: {}, Python {}; for {:.1f} s at {:.1f} of {} samples a second; {} refused, {} late, {} short stops; {} samples and {} names in all",
        target_.pid(), joined(target_.command()), target_.python(), std::chrono::duration<double>(figures.elapsed).count(),
        reached_rate(figures), target_.rate_hz(), figures.refused, figures.late, figures.stops, session_.samples(), session_.names().size())) + "\n");
}

Result<void> WatchCommand::reset(const Words& words) {
    if (const auto none = no_more_words(words); !none) return none;
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
    if (const auto none = no_more_words(words); !none) return none;
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
    std::string hint = "help lists the commands";
    std::size_t best = 3;
    for (const Command& command : commands()) {
        const std::size_t distance = edit_distance(words->front(), command.name, 2);
        if (distance >= best) continue;
        best = distance;
        hint = fmt::format("did you mean {}?", command.name);
    }
    return fail(ExitCode::kUsage, fmt::format("no command '{}'", words->front()), hint);
}

// --- while it waits -----------------------------------------------------------------------------

void WatchCommand::take_signals() {
    while (const auto signal = signals_.take()) {
        if (*signal == SIGUSR1) continue;
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
    prompt_.emplace("(pyprof) ", wait_for_key, [this](std::string_view line) { return completions(line); });
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
        return fail(ExitCode::kNoSamples, "no thread was sampled",
                    settings_.which == WhichThreads::kRunning ? "threads that sleep or wait are left out: see --idle" : "");
    }
    return failure_;
}

}  // namespace

Result<double> parse_watch_rate(std::string_view text) {
    const auto rate = parse_rate(text);
    if (rate && *rate == 0) return fail(ExitCode::kUsage, "watch needs a rate, not max", "the error of a time follows from the period");
    return rate;
}

Result<int> run_watch(const WatchSettings& settings) { return WatchCommand(settings).run(); }

}  // namespace pyprof
