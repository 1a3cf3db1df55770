// SPDX-License-Identifier: Apache-2.0
//
// `pyprof record`: opens the output, attaches or launches, samples until a reason to end comes, writes.
// A launched program is never ended by us, and its exit status becomes ours.
#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "output/output_file.h"
#include "sample/recorder.h"
#include "target/launch.h"
#include "target/live_target.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr int kDrainEveryMs = 50;
constexpr int kAttachAgainMs = 1;
constexpr nanoseconds kShowEvery = std::chrono::milliseconds(250);
// After this long without an interpreter a launched program is told about; it may still become one.
constexpr nanoseconds kNoPythonNotice = std::chrono::seconds(5);

class RecordCommand {
public:
    explicit RecordCommand(const RecordSettings& settings) : settings_(settings) {}
    Result<int> run();

private:
    Result<const Format*> choose_format() const;
    std::string output_name(pid_t pid) const;
    Result<void> open_outputs();
    Result<void> launch();
    // False: the launched program ended, or we were told to end, before there was an interpreter.
    Result<bool> attach();
    void sample();
    Result<void> write(bool is_last);
    void describe(Profile& profile) const;
    void say(const std::string& line) const;
    bool handle_signals();
    Result<int> finish_launched(bool had_python);
    [[nodiscard]] pid_t pid() const { return launch_ ? launch_->pid() : *settings_.pid; }

    RecordSettings settings_;
    Signals signals_;
    const Format* format_ = nullptr;
    std::optional<OutputFile> output_;
    std::optional<OutputFile> stats_;
    std::optional<Launch> launch_;
    std::unique_ptr<Target> target_;
    std::optional<PythonProcess> process_;
    std::optional<Recorder> recorder_;
    ProcessFacts facts_;
    std::chrono::system_clock::time_point started_;
    bool must_end_ = false;
    int interrupts_ = 0;
    std::uint64_t samples_written_ = 0;
};

void RecordCommand::say(const std::string& line) const {
    if (!settings_.quiet) fmt::print(stderr, "{}\n", line);
}

Result<const Format*> RecordCommand::choose_format() const {
    if (!settings_.format.empty()) {
        if (const Format* format = find_format(settings_.format)) return format;
        std::string known;
        for (const Format& format : formats()) known += fmt::format("{}{}", known.empty() ? "" : ", ", format.name);
        return fail(ExitCode::kUsage, fmt::format("unknown format {}", settings_.format), "known are: " + known);
    }
    if (const Format* format = format_of_path(settings_.output)) return format;
    return find_format("flamegraph");
}

std::string RecordCommand::output_name(pid_t pid) const {
    std::string program = settings_.command.empty() ? "python" : settings_.command.front();
    program.erase(0, program.find_last_of('/') + 1);
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    return fmt::format("pyprof-{}-{}-{:%Y%m%dT%H%M%S}{}", program, pid, local, format_->endings.front());
}

Result<void> RecordCommand::open_outputs() {
    auto output = OutputFile::open(settings_.output);
    if (!output) return tl::unexpected(output.error());
    output_ = std::move(*output);
    if (settings_.stats.empty()) return {};
    auto stats = OutputFile::open(settings_.stats);
    if (!stats) return tl::unexpected(stats.error());
    stats_ = std::move(*stats);
    return {};
}

Result<void> RecordCommand::launch() {
    LaunchRequest request;
    request.command = settings_.command;
    request.signal_mask = signals_.original_mask();
    request.default_signals = {SIGPIPE};
    auto started = Launch::start(request);
    if (!started) return tl::unexpected(started.error());
    launch_.emplace(std::move(*started));
    return {};
}

// Returns true when it is time to end.
bool RecordCommand::handle_signals() {
    while (const auto signal = signals_.take()) {
        if (*signal == SIGUSR1) {
            if (recorder_) {
                const auto written = write(false);
                if (!written) say("pyprof: " + written.error().message);
            }
            continue;
        }
        if (*signal == SIGINT && ++interrupts_ > 1) {
            fmt::print(stderr, "pyprof: interrupted again: nothing is written\n");
            output_.reset();
            stats_.reset();
            std::_Exit(128 + SIGINT);
        }
        // A Ctrl-C reaches the program by itself, from the terminal; the others are meant for both.
        if (launch_ && *signal != SIGINT) launch_->send(*signal);
        must_end_ = true;
    }
    return must_end_;
}

Result<bool> RecordCommand::attach() {
    const auto began = monotonic_now();
    bool told = false;
    while (true) {
        auto target = open_live_target(pid());
        if (target) {
            auto process = PythonProcess::attach(**target);
            if (process) {
                target_ = std::move(*target);
                process_.emplace(std::move(*process));
                return true;
            }
            if (!launch_) return tl::unexpected(process.error());
            if (!told && monotonic_now() - began > kNoPythonNotice) {
                told = true;
                say("pyprof: " + process.error().message + "; still waiting for one");
                if (!process.error().hint.empty()) say("hint: " + process.error().hint);
            }
        } else if (!launch_ || (target.error().code != ExitCode::kNoProcess && target.error().code != ExitCode::kNotPython)) {
            return tl::unexpected(target.error());
        }
        if (launch_->wait(std::chrono::milliseconds(kAttachAgainMs)) || handle_signals()) return false;
    }
}

void RecordCommand::describe(Profile& profile) const {
    profile.facts.pid = pid();
    profile.facts.command = facts_.command.empty() ? settings_.command : facts_.command;
    profile.facts.working_directory = facts_.working_directory;
    profile.facts.python = process_->version_text();
    profile.facts.rate_hz = settings_.rate_hz;
    profile.facts.started = started_;
    profile.facts.with_lines = !settings_.functions_only;
    profile.facts.with_threads = settings_.per_thread;
    profile.facts.which_threads = settings_.which == WhichThreads::kAll          ? "all"
                                  : settings_.which == WhichThreads::kGilHolder ? "GIL-holding"
                                                                                : "running";
}

void RecordCommand::sample() {
    RecordingOptions options;
    options.sampler.rate_hz = settings_.rate_hz;
    options.sampler.which = settings_.which;
    options.sampler.with_lines = !settings_.functions_only;
    options.duration = settings_.duration;
    options.keep_spans = format_->wants_spans;
    options.may_stop = !settings_.nonblocking;
    if (auto facts = target_->read_facts()) facts_ = std::move(*facts);
    started_ = std::chrono::system_clock::now();
    recorder_.emplace(*target_, *process_, options);
    describe(recorder_->profile());
    recorder_->start();

    Progress progress(!settings_.quiet);
    auto shown = nanoseconds{0};
    while (!recorder_->is_finished()) {
        pollfd waits[] = {{recorder_->finished_fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
        ::poll(waits, 2, kDrainEveryMs);
        if (handle_signals()) recorder_->request_stop();
        recorder_->drain();
        const auto now = monotonic_now();
        if (now - shown < kShowEvery) continue;
        shown = now;
        progress.show(recorder_->profile().figures);
    }
    recorder_->join();
    recorder_->drain();
}

Result<void> RecordCommand::write(bool is_last) {
    recorder_->drain();
    const ResolvedProfile profile = resolve(recorder_->profile(), {settings_.full_filenames});
    samples_written_ = profile.total_samples;
    ExportOptions options;
    options.inverted = settings_.inverted;
    const auto written = output_->commit([&](std::ostream& out) { format_->write(profile, options, out); });
    if (!written) return tl::unexpected(written.error());
    if (stats_) {
        const auto stats = stats_->commit([&](std::ostream& out) { write_stats(profile, out); });
        if (!stats) return tl::unexpected(stats.error());
    }
    if (*written == OutputFile::Commit::kWritten) {
        say(closing_line(profile, settings_.output == "-" ? "stdout" : settings_.output) + (is_last ? "" : " (so far)"));
    }
    return {};
}

Result<int> RecordCommand::finish_launched(bool had_python) {
    if (!had_python && !must_end_) {
        say(fmt::format("pyprof: {} ended before a Python interpreter could be seen in it", escape_control(settings_.command.front())));
    }
    while (true) {
        if (const auto status = launch_->wait(std::chrono::milliseconds(kDrainEveryMs))) return *status;
        handle_signals();
    }
}

Result<int> RecordCommand::run() {
    const auto format = choose_format();
    if (!format) return tl::unexpected(format.error());
    format_ = *format;
    if (!settings_.command.empty()) {
        // The name may carry the child's pid, but must be known to be writable before it starts.
        if (settings_.output.empty()) settings_.output = output_name(::getpid());
    } else if (settings_.output.empty()) {
        settings_.output = output_name(*settings_.pid);
    }
    if (settings_.pid) {
        // A wrong pid is told before an output appears.
        const auto attached = attach();
        if (!attached) return tl::unexpected(attached.error());
        const auto opened = open_outputs();
        if (!opened) return tl::unexpected(opened.error());
    } else {
        const auto opened = open_outputs();
        if (!opened) return tl::unexpected(Error{ExitCode::kOwnFailure, opened.error().message, opened.error().hint});
        const auto started = launch();
        if (!started) return tl::unexpected(started.error());
        const auto attached = attach();
        if (!attached) {
            fmt::print(stderr, "pyprof: {}\n", escape_control(attached.error().message));
            if (!attached.error().hint.empty()) fmt::print(stderr, "hint: {}\n", escape_control(attached.error().hint));
        }
        if (!attached || !*attached) return finish_launched(!attached);
    }
    sample();
    const auto written = write(true);
    if (!written && !launch_) return tl::unexpected(written.error());
    if (!written) fmt::print(stderr, "pyprof: {}\n", escape_control(written.error().message));
    if (launch_) return finish_launched(true);
    if (samples_written_ > 0) return 0;
    return fail(ExitCode::kNoSamples, "no thread was sampled; the file is valid and empty",
                settings_.which == WhichThreads::kRunning ? "threads that sleep or wait are left out: see --idle" : "");
}

}  // namespace

Result<int> run_record(const RecordSettings& settings) { return RecordCommand(settings).run(); }

}  // namespace pyprof
