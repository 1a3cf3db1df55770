// SPDX-License-Identifier: Apache-2.0
//
// `pyprof record`: opens the output, attaches or launches, samples until a reason to end comes, writes.
// A launched program is never ended by us, and its exit status becomes ours.
#include "base/clock.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/creation_tracking.h"
#include "cli/messages.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "native/debuginfod.h"
#include "output/output_file.h"
#include "profile/merge.h"
#include "sample/recorder.h"
#include "target/invoking_user.h"
#include "target/permission_facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <thread>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kLookForEnd{50};
constexpr nanoseconds kShowEvery = std::chrono::milliseconds(250);
constexpr int kTracerLooks = 20;
constexpr std::chrono::milliseconds kTracerPause{5};
constexpr nanoseconds kTrackEvery = std::chrono::milliseconds(250);
// A program that lived shorter than this is reported as such.
constexpr nanoseconds kShortLife = std::chrono::milliseconds(50);

class RecordCommand {
public:
    explicit RecordCommand(const RecordSettings& settings) : settings_(settings), signals_({SIGTSTP}) {}
    Result<int> run();

private:
    Result<const Format*> choose_format() const;
    Result<void> refuse_foreign_tracer() const;
    std::string output_name(pid_t pid) const;
    Result<void> open_outputs();
    Result<bool> start();          // false: there is nothing to sample
    void sample_all();             // one program after the other, as the process executes them
    void sample(nanoseconds end);  // the attached one
    void keep_finished();
    [[nodiscard]] ResolvedProfile whole_profile();
    Result<void> write(bool is_last);
    void describe(Profile& profile) const;
    void say(const std::string& line) const;
    bool handle_signals();
    void suspend();
    void track_creation(nanoseconds now);
    void end_tracking();
    Result<int> finish_launched(bool had_python);
    Subject::Waiting waiting();

    RecordSettings settings_;
    Signals signals_;
    const Format* format_ = nullptr;
    std::optional<OutputFile> output_;
    std::optional<OutputFile> stats_;
    std::optional<Subject> subject_;
    std::optional<Attached> attached_;
    std::optional<Recorder> recorder_;  // of what is attached
    std::unique_ptr<CreationTracking> tracking_;  // of what is attached, where asked for
    nanoseconds next_tracking_look_{0};
    std::optional<ResolvedProfile> finished_;  // of the programs that the process executed before
    nanoseconds first_began_{0};
    nanoseconds began_{0};
    ChildCounter children_;
    ProcessFacts facts_;
    DebugSearch::Download download_;
    std::chrono::system_clock::time_point started_;
    bool must_end_ = false;
    bool is_written_ = false;  // for the last time
    int interrupts_ = 0;
    std::uint64_t samples_written_ = 0;
};

void RecordCommand::say(const std::string& line) const {
    if (!settings_.quiet) print_line(line);
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
    const auto owner = invoking_owner();
    const auto open = [&](const std::string& path, std::optional<OutputFile>& file) -> Result<void> {
        auto opened = OutputFile::open(path, owner);
        if (!opened) return tl::unexpected(opened.error());
        file = std::move(*opened);
        return {};
    };
    // What may wait for ever comes first: a signal ends us then, and no temporary file is left.
    std::error_code error;
    const bool stats_first = std::filesystem::is_fifo(settings_.stats, error) && !std::filesystem::is_fifo(settings_.output, error);
    if (stats_first) {
        if (auto opened = open(settings_.stats, stats_); !opened) return opened;
    }
    if (auto opened = open(settings_.output, output_); !opened) return opened;
    if (stats_first || settings_.stats.empty()) return {};
    return open(settings_.stats, stats_);
}

// Ctrl-Z. No thread of the target is in our hand while we are stopped.
void RecordCommand::suspend() {
    if (recorder_) recorder_->hold();
    Signals::stop_process();
    if (recorder_) recorder_->release();
}

// Returns true when it is time to end.
bool RecordCommand::handle_signals() {
    while (const auto signal = signals_.take()) {
        if (*signal == SIGUSR1) {
            if (!recorder_) continue;
            const auto written = write(false);
            if (!written) print_error(written.error());
            continue;
        }
        if (*signal == SIGTSTP) {
            suspend();
            continue;
        }
        if (*signal == SIGINT && ++interrupts_ > 1) {
            print_line(is_written_ ? "pyprof: interrupted again: the program runs on" : "pyprof: interrupted again: nothing is written");
            output_.reset();
            stats_.reset();
            recorder_.reset();  // a stopped thread runs again before we go
            end_tracking();
            std::_Exit(128 + SIGINT);
        }
        // A Ctrl-C reaches the program by itself, from the terminal; the others are meant for both.
        if (Launch* launch = subject_ ? subject_->launched() : nullptr; launch != nullptr && *signal != SIGINT) launch->send(*signal);
        must_end_ = true;
    }
    return must_end_;
}

Subject::Waiting RecordCommand::waiting() {
    return {[this] { return handle_signals(); },
            [this](const Error& error) {
                say("pyprof: " + error.message + "; still waiting for one");
                if (!error.hint.empty()) say("hint: " + error.hint);
            }};
}

void RecordCommand::describe(Profile& profile) const {
    profile.facts.pid = subject_->pid();
    profile.facts.command = facts_.command.empty() ? settings_.command : facts_.command;
    profile.facts.working_directory = facts_.working_directory;
    profile.facts.python = attached_->process.version_text();
    profile.facts.rate_hz = settings_.rate_hz;
    profile.facts.started = started_;
    profile.facts.with_lines = !settings_.functions_only;
    profile.facts.with_threads = settings_.per_thread;
    if (settings_.async.mode == AsyncMode::kAll) {
        profile.facts.tasks_base = settings_.async.weight == AsyncWeight::kShare ? "wall time" : "task-seconds";
    }
    profile.facts.which_threads = name_of(settings_.which);
}

// Loops that begin later are found later.
void RecordCommand::track_creation(nanoseconds now) {
    if (tracking_ == nullptr) return;
    tracking_->settle();
    if (now < next_tracking_look_) return;
    next_tracking_look_ = now + kTrackEvery;
    tracking_->look();
    for (const std::string& message : tracking_->take_messages()) say("pyprof: " + message);
}

void RecordCommand::end_tracking() {
    if (tracking_ == nullptr) return;
    tracking_->finish();
    for (const std::string& message : tracking_->take_messages()) say("pyprof: " + message);
    tracking_.reset();
}

void RecordCommand::sample(nanoseconds end) {
    RecordingOptions options;
    options.sampler.rate_hz = settings_.rate_hz;
    options.sampler.which = settings_.which;
    options.sampler.async = settings_.async;
    options.sampler.with_lines = !settings_.functions_only;
    if (settings_.duration) options.duration = end - began_;
    options.keep_spans = format_->wants_spans;
    options.by_thread = settings_.per_thread || format_->wants_spans;
    options.may_stop = !settings_.nonblocking;
    options.native = settings_.native;
    options.naming = {settings_.native_all, download_};
    if (auto facts = attached_->target->read_facts()) facts_ = std::move(*facts);
    recorder_.emplace(*attached_->target, attached_->process, options);
    describe(recorder_->profile());
    if (settings_.track_creation > 0) {
        // Before the recorder has a thread of its own.
        auto tracking = CreationTracking::start(subject_->pid(), settings_.track_creation, !settings_.nonblocking);
        if (!tracking) print_error(tracking.error());
        if (tracking) tracking_ = std::move(*tracking);
        next_tracking_look_ = nanoseconds{0};
        track_creation(monotonic_now());
    }
    recorder_->start();

    Progress progress(!settings_.quiet);
    auto shown = nanoseconds{0};
    while (!recorder_->is_finished()) {
        pollfd waits[] = {{recorder_->finished_fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
        ::poll(waits, 2, static_cast<int>(recorder_->drain_pause().count()));
        if (handle_signals()) recorder_->request_stop();
        recorder_->drain();
        const auto now = monotonic_now();
        children_.look(subject_->pid(), now);
        track_creation(now);
        if (now - shown < kShowEvery) continue;
        shown = now;
        progress.show(recorder_->profile().figures);
    }
    recorder_->join();
    end_tracking();
    recorder_->drain();
}

void RecordCommand::keep_finished() {
    finished_ = whole_profile();
    recorder_.reset();
}

void RecordCommand::sample_all() {
    started_ = std::chrono::system_clock::now();
    first_began_ = began_ = monotonic_now();
    const nanoseconds end = first_began_ + settings_.duration.value_or(nanoseconds{0});
    while (true) {
        sample(end);
        if (must_end_ || !recorder_->target_ended() || (settings_.duration && monotonic_now() >= end)) return;
        auto next = subject_->attach_again(waiting());
        if (!next) {
            say(fmt::format("pyprof: the process executed something else: {}", next.error().message));
            return;
        }
        if (!*next) return;
        keep_finished();
        attached_.emplace(std::move(**next));
        began_ = monotonic_now();
        say(fmt::format("pyprof: process {} executed another program: Python {}", subject_->pid(), attached_->process.version_text()));
    }
}

ResolvedProfile RecordCommand::whole_profile() {
    recorder_->drain();
    ResolvedProfile current = resolve(recorder_->profile(), {settings_.full_filenames, recorder_->natives().get()});
    if (!finished_) return current;
    ResolvedProfile whole = *finished_;
    merge(whole, current, began_ - first_began_);
    return whole;
}

Result<void> RecordCommand::write(bool is_last) {
    const ResolvedProfile profile = whole_profile();
    samples_written_ = profile.total_samples;
    ExportOptions options;
    options.inverted = settings_.inverted;
    const auto commit_stats = [&]() -> Result<void> {
        if (!stats_) return {};
        const auto stats = stats_->commit([&](std::ostream& out) { write_stats(profile, children_.count(), out); });
        if (!stats) return tl::unexpected(stats.error());
        return {};
    };
    // The reader of what is written in place may never read: a signal ends us then, and no temporary file is left.
    const bool stats_first = output_->is_in_place();
    if (stats_first) {
        if (auto stats = commit_stats(); !stats) return stats;
    }
    const auto written = output_->commit([&](std::ostream& out) { format_->write(profile, options, out); });
    if (!written) return tl::unexpected(written.error());
    if (!stats_first) {
        if (auto stats = commit_stats(); !stats) return stats;
    }
    if (*written == OutputFile::Commit::kWritten) {
        say(closing_line(profile, children_.count(), settings_.output == "-" ? "stdout" : settings_.output) +
            (is_last ? "" : " (so far)"));
    }
    return {};
}

Result<int> RecordCommand::finish_launched(bool had_python) {
    Launch& launch = *subject_->launched();
    const auto ended = launch.wait(nanoseconds{0});
    const nanoseconds age = subject_->age();
    const std::string& program = settings_.command.front();
    if (ended && age < kShortLife && samples_written_ == 0) {
        say(fmt::format("pyprof: {} ended after {} ms, too soon to be sampled", program,
                        std::chrono::duration_cast<std::chrono::milliseconds>(age).count()));
        const std::string hint = had_python ? "" : subject_->hint_of_child();
        say("hint: " + (hint.empty() ? "a higher --rate sees more of a short program" : hint));
    } else if (!had_python && ended) {
        say(fmt::format("pyprof: {} ended and was no Python; nothing is written", program));
        if (const std::string hint = subject_->hint_of_child(); !hint.empty()) say("hint: " + hint);
    } else if (!had_python) {
        say("pyprof: nothing is written");
    }
    while (true) {
        if (const auto status = launch.wait(kLookForEnd)) return *status;
        handle_signals();
    }
}

// One tracer a thread: under a debugger no thread can be stopped for its native frames. Another pyprof holds a thread for
// some microseconds at a time.
Result<void> RecordCommand::refuse_foreign_tracer() const {
    if (!settings_.native || settings_.nonblocking) return {};
    for (int i = 0; i < kTracerLooks; ++i) {
        const AccessFacts facts = gather_access_facts(*settings_.pid, AccessSources::real());
        if (facts.tracer == 0) return {};
        if (i + 1 == kTracerLooks) return tl::unexpected(explain_refusal(facts, Access::kStop));
        std::this_thread::sleep_for(kTracerPause);
    }
    return {};
}

Result<bool> RecordCommand::start() {
    if (settings_.pid) {
        // A wrong pid is told before an output appears.
        subject_.emplace(*settings_.pid);
        auto attached = subject_->attach(waiting());
        if (!attached) return tl::unexpected(attached.error());
        attached_.emplace(std::move(**attached));
        if (auto traced = refuse_foreign_tracer(); !traced) return tl::unexpected(traced.error());
        const auto opened = open_outputs();
        if (!opened) return tl::unexpected(opened.error());
        return true;
    }
    const auto opened = open_outputs();
    if (!opened) return tl::unexpected(Error{ExitCode::kOwnFailure, opened.error().message, opened.error().hint});
    auto launched = Subject::launch(settings_.command, signals_.original_mask());
    if (!launched) return tl::unexpected(launched.error());
    subject_.emplace(std::move(*launched));
    auto attached = subject_->attach(waiting());
    if (!attached) print_error(attached.error());
    if (!attached || !*attached) return false;
    attached_.emplace(std::move(**attached));
    return true;
}

Result<int> RecordCommand::run() {
    const auto format = choose_format();
    if (!format) return tl::unexpected(format.error());
    format_ = *format;
    if (settings_.inverted && format_->name != "flamegraph") {
        say(fmt::format("pyprof: --inverted turns flame graphs alone: it has no effect on the format {}", format_->name));
    }
    // The name of a launched program's output is made before it starts, so it can't carry its pid.
    if (settings_.debuginfod) {
        auto opened = open_debuginfod();
        if (!opened) return tl::unexpected(opened.error());
        download_ = std::move(*opened);
    }
    if (settings_.output.empty()) settings_.output = output_name(settings_.pid.value_or(::getpid()));
    const auto started = start();
    if (!started) return tl::unexpected(started.error());
    if (!*started) return finish_launched(false);
    sample_all();
    const auto written = write(true);
    is_written_ = written.has_value();
    recorder_.reset();
    if (!written && !subject_->launched()) return tl::unexpected(written.error());
    if (!written) print_error(written.error());
    if (subject_->launched()) return finish_launched(true);
    if (samples_written_ > 0) return 0;
    return tl::unexpected(no_samples(subject_->pid(), settings_.which, "; the file is valid and empty"));
}

}  // namespace

Result<int> run_record(const RecordSettings& settings) { return RecordCommand(settings).run(); }

}  // namespace pyprof
