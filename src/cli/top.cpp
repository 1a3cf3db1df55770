// SPDX-License-Identifier: Apache-2.0
//
// `pyprof top`: attaches or launches as record does, samples all threads, and shows what the person chose. A launched
// program is never ended by it; while the screen is ours what the program prints is kept, and shown afterwards.
#include "base/clock.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/messages.h"
#include "cli/signals.h"
#include "live/process_usage.h"
#include "live/source_text.h"
#include "live/terminal.h"
#include "live/top_details.h"
#include "live/top_model.h"
#include "live/top_plain.h"
#include "live/top_screen.h"
#include "live/top_view.h"
#include "output/output_file.h"
#include "sample/recorder.h"
#include "target/invoking_user.h"

#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr int kDrainEveryMs = 50;
constexpr std::size_t kHistory = 60;

class TopCommand {
public:
    explicit TopCommand(const TopSettings& settings) : settings_(settings), signals_({SIGWINCH, SIGTSTP}) {}
    Result<int> run();

private:
    Result<bool> start();
    void begin_recording();
    void watch();            // until the person leaves
    bool follow_the_target();  // false: there is nothing more to sample
    void take_keys();
    void handle_signals();
    void act(TopAction action);
    void refresh();          // the interval is over
    void recount();
    void redraw();
    void print();            // without a screen
    void reset();
    void save();
    void show_details();
    void suspend();
    Result<int> finish();
    Subject::Waiting waiting();
    void keep_output();
    void show_kept_output();
    [[nodiscard]] int wait_ms() const;

    TopSettings settings_;
    Signals signals_;
    std::unique_ptr<Terminal> terminal_;
    std::optional<Subject> subject_;
    std::optional<Attached> attached_;
    std::optional<Recorder> recorder_;
    std::optional<TopModel> model_;
    TopView view_;
    TopData data_;
    std::vector<TopLine> lines_;
    RunFigures at_reset_;
    RunFigures at_interval_;
    std::optional<ProcessUsage> usage_;
    nanoseconds next_refresh_{0};
    nanoseconds usage_read_{0};
    UniqueFd kept_output_;  // of a launched program, while the screen is ours
    UniqueFd saved_stdout_;
    UniqueFd saved_stderr_;
    off_t shown_output_ = 0;
    std::uint64_t printed_ = 0;
    bool must_end_ = false;
};

Subject::Waiting TopCommand::waiting() {
    return {[this] {
                handle_signals();
                if (terminal_) take_keys();
                return must_end_;
            },
            [this](const Error& error) {
                if (terminal_) view_.message = error.message + "; still waiting for one";
                else print_error(error);
            }};
}

// What the launched program inherits: a file instead of the terminal that the screen is drawn on.
void TopCommand::keep_output() {
    kept_output_ = UniqueFd(::open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
    if (!kept_output_) return;
    saved_stdout_ = UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    ::dup2(kept_output_.get(), STDOUT_FILENO);
    if (::isatty(STDERR_FILENO) != 1) return;
    saved_stderr_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    ::dup2(kept_output_.get(), STDERR_FILENO);
}

void TopCommand::show_kept_output() {
    char buffer[4096];
    while (kept_output_) {
        const ssize_t got = ::pread(kept_output_.get(), buffer, sizeof buffer, shown_output_);
        if (got <= 0) return;
        shown_output_ += got;
        if (!print_out(std::string(buffer, static_cast<std::size_t>(got)))) return;
    }
}

Result<bool> TopCommand::start() {
    const bool wants_screen = !settings_.batch && !settings_.json;
    const bool can = wants_screen && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (settings_.pid) {
        subject_.emplace(*settings_.pid);
    } else {
        if (can) keep_output();
        auto launched = Subject::launch(settings_.command, signals_.original_mask(), can);
        if (saved_stdout_) ::dup2(saved_stdout_.get(), STDOUT_FILENO);
        if (saved_stderr_) ::dup2(saved_stderr_.get(), STDERR_FILENO);
        if (!launched) return tl::unexpected(launched.error());
        subject_.emplace(std::move(*launched));
    }
    auto attached = subject_->attach(waiting());
    if (!attached && settings_.pid) return tl::unexpected(attached.error());
    if (!attached) print_error(attached.error());
    if (!attached || !*attached) return false;
    attached_.emplace(std::move(**attached));
    if (wants_screen) terminal_ = open_terminal();
    return true;
}

void TopCommand::begin_recording() {
    RecordingOptions options;
    options.sampler.rate_hz = settings_.rate_hz;
    options.sampler.which = WhichThreads::kAll;  // the view chooses among them
    options.may_stop = !settings_.nonblocking;
    recorder_.emplace(*attached_->target, attached_->process, options);
    ProfileFacts& facts = recorder_->profile().facts;
    facts.pid = subject_->pid();
    facts.command = settings_.command;
    if (auto read = attached_->target->read_facts()) {
        if (!read->command.empty()) facts.command = read->command;
        facts.working_directory = read->working_directory;
    }
    facts.python = attached_->process.version_text();
    facts.rate_hz = settings_.rate_hz;
    facts.started = std::chrono::system_clock::now();
    model_.emplace(recorder_->profile(), recorder_->stacks());
    at_reset_ = at_interval_ = {};
    data_ = {};
    data_.facts.pid = facts.pid;
    data_.facts.command = joined(facts.command);
    data_.facts.python = facts.python;
    data_.facts.asked_hz = settings_.rate_hz;
    data_.facts.processors = std::max(std::thread::hardware_concurrency(), 1U);
    recorder_->start();
    usage_ = read_usage(facts.pid);
    usage_read_ = monotonic_now();
    next_refresh_ = monotonic_now() + view_.refresh;
    recount();
}

void TopCommand::recount() {
    data_.which = view_.which;
    data_.tree = make_top_tree(model_->last_interval(view_.which, view_.per_thread), model_->since_start(view_.which, view_.per_thread), view_.with_lines);
}

void TopCommand::refresh() {
    const nanoseconds now = monotonic_now();
    TopFacts& facts = data_.facts;
    const RunFigures figures = recorder_->profile().figures;
    const RunFigures since = difference(figures, at_reset_);
    const RunFigures last = difference(figures, at_interval_);
    at_interval_ = figures;
    const double ticks = static_cast<double>(std::max<std::uint64_t>(last.ticks, 1));
    const double interval = std::chrono::duration<double>(last.elapsed).count();
    facts.elapsed = since.elapsed;
    facts.interval = last.elapsed;
    facts.reached_hz = interval > 0 ? static_cast<double>(last.ticks) / interval : 0;
    facts.ticks = since.ticks;
    facts.refused = since.refused;
    facts.late = since.late;
    facts.lost = since.lost;
    facts.running = static_cast<double>(last.running_looks) / ticks;
    facts.threads = static_cast<double>(last.thread_looks) / ticks;
    const auto remember = [](std::vector<double>& history, double value) {
        history.push_back(value);
        if (history.size() > kHistory) history.erase(history.begin());
    };
    if (attached_->process.layout().gil_kind != GilKind::kNone) {
        facts.gil_share = 100 * static_cast<double>(last.gil_ticks) / ticks;
        remember(facts.gil_history, *facts.gil_share / 100);
    }
    const auto usage = read_usage(facts.pid);
    if (usage && usage_ && now > usage_read_) {
        facts.processors_used = static_cast<double>((usage->cpu - usage_->cpu).count()) / static_cast<double>((now - usage_read_).count());
        remember(facts.cpu_history, *facts.processors_used / facts.processors);
    }
    if (usage) facts.resident_bytes = usage->resident_bytes;
    usage_ = usage;
    usage_read_ = now;
    model_->end_interval();
    recount();
}

void TopCommand::redraw() {
    if (!terminal_) return;
    lines_ = make_top_lines(data_, view_);
    keep_in_view(view_, lines_, top_layout(terminal_->rows()).page);
    terminal_->draw(draw_top(data_, view_, lines_, terminal_->rows(), terminal_->columns()));
}

void TopCommand::print() {
    lines_ = make_top_lines(data_, view_);
    const std::string text = settings_.json ? json_line(data_, view_, lines_) : plain_table(data_, view_, lines_, settings_.most_rows);
    if (!print_out(text)) must_end_ = true;
    ++printed_;
    if (settings_.count && printed_ >= *settings_.count) must_end_ = true;
}

void TopCommand::reset() {
    model_->reset();
    at_reset_ = at_interval_ = recorder_->profile().figures;
    data_.facts.elapsed = data_.facts.interval = nanoseconds{0};
    data_.facts.ticks = data_.facts.refused = data_.facts.late = data_.facts.lost = 0;
    recorder_->profile().facts.started = std::chrono::system_clock::now();
    recount();
}

void TopCommand::save() {
    const Format* format = format_of_path(view_.typed);
    if (format == nullptr) format = find_format("flamegraph");
    ResolvedProfile profile = model_->since_start(view_.which, view_.per_thread, settings_.full_filenames);
    const std::uint64_t truncated = profile.figures.truncated;
    profile.figures = difference(recorder_->profile().figures, at_reset_);
    profile.figures.truncated += truncated;
    auto file = OutputFile::open(view_.typed, invoking_owner());
    const auto written = file ? file->commit([&](std::ostream& out) { format->write(profile, {}, out); })
                              : Result<OutputFile::Commit>(tl::unexpected(file.error()));
    view_.message = written ? fmt::format("{}: {} samples as {}", view_.typed, profile.total_samples, format->name) : written.error().message;
}

void TopCommand::show_details() {
    const int selected = selected_line(lines_, view_);
    if (selected < 0) return;
    const TopFunction function = data_.tree.functions[lines_[static_cast<std::size_t>(selected)].function];
    std::vector<std::string> source;
    std::string note;
    if (!function.full_file.empty()) {
        auto read = read_source(subject_->pid(), function.full_file);
        if (read) source = std::move(read->lines);
        note = !read ? read.error().message : read->is_newer ? "the file is newer than the process" : "";
    }
    view_.details = make_details(model_->since_start(view_.which, false), function, source, note);
    view_.details_scroll = 0;
}

// SIGSTOP and not SIGTSTP: its default action is what stops us, and that one is blocked. No thread of the target is
// in our hand meanwhile.
void TopCommand::suspend() {
    recorder_->hold();
    if (terminal_) terminal_->suspend();
    ::raise(SIGSTOP);
    if (terminal_) terminal_->resume();
    recorder_->release();
}

void TopCommand::act(TopAction action) {
    switch (action) {
        case TopAction::kNone:
            return;
        case TopAction::kQuit:
            must_end_ = true;
            return;
        case TopAction::kSuspend:
            suspend();
            break;
        case TopAction::kRecount:
            recount();
            break;
        case TopAction::kReset:
            reset();
            break;
        case TopAction::kDetails:
            show_details();
            break;
        case TopAction::kSave:
            save();
            break;
        case TopAction::kRedraw:
            break;
    }
    redraw();
}

void TopCommand::take_keys() {
    while (const auto key = terminal_->take_key()) {
        if (!model_) continue;
        const TopLayout layout = top_layout(terminal_->rows());
        lines_ = make_top_lines(data_, view_);
        const auto before = view_.refresh;
        act(press(view_, *key, lines_, layout.first_row, layout.page));
        if (view_.refresh != before) next_refresh_ = monotonic_now() + view_.refresh;
    }
}

void TopCommand::handle_signals() {
    while (const auto signal = signals_.take()) {
        if (*signal == SIGUSR1) continue;
        if (*signal == SIGWINCH) {
            if (terminal_) terminal_->resize();
            if (model_) redraw();
            continue;
        }
        if (*signal == SIGTSTP) {
            if (model_) suspend();
            if (model_) redraw();
            continue;
        }
        if (Launch* launch = subject_ ? subject_->launched() : nullptr; launch != nullptr && *signal != SIGINT) launch->send(*signal);
        must_end_ = true;
    }
}

// A process that executes another program is gone on with, from zero.
bool TopCommand::follow_the_target() {
    recorder_->join();
    recorder_->drain([this](const SampleRecord& record) { model_->add(record); });
    if (!must_end_ && recorder_->target_ended()) {
        auto next = subject_->attach_again(waiting());
        if (next && *next) {
            model_.reset();
            recorder_.reset();
            attached_.emplace(std::move(**next));
            begin_recording();
            view_.message = "the process executed another program: Python " + data_.facts.python;
            return true;
        }
    }
    data_.facts.has_ended = true;
    refresh();
    if (!terminal_) print();
    redraw();
    return false;
}

int TopCommand::wait_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_refresh_ - monotonic_now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 1, kDrainEveryMs));
}

void TopCommand::watch() {
    redraw();
    bool is_sampling = true;
    while (!must_end_) {
        pollfd waits[] = {{signals_.fd(), POLLIN, 0}, {terminal_ ? STDIN_FILENO : -1, POLLIN, 0}, {is_sampling ? recorder_->finished_fd() : -1, POLLIN, 0}};
        ::poll(waits, 3, is_sampling ? wait_ms() : -1);
        handle_signals();
        if (terminal_) take_keys();
        if ((waits[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) must_end_ = true;  // the terminal is gone
        if (must_end_ || !is_sampling) continue;
        if (recorder_->is_finished()) {
            is_sampling = follow_the_target();
            if (!is_sampling && !terminal_) return;
            continue;
        }
        recorder_->drain([this](const SampleRecord& record) { model_->add(record); });
        if (monotonic_now() < next_refresh_) continue;
        next_refresh_ = std::max(next_refresh_ + view_.refresh, monotonic_now());
        if (view_.is_paused) continue;
        refresh();
        terminal_ ? redraw() : print();
    }
}

Result<int> TopCommand::finish() {
    if (Launch* launch = subject_->launched()) {
        show_kept_output();
        if (!launch->wait(nanoseconds{0}) && kept_output_) {
            print_line(fmt::format("pyprof: {} (process {}) runs on; Ctrl-C leaves it alone", settings_.command.front(), launch->pid()));
        }
        int interrupts = 0;
        while (true) {
            const auto status = launch->wait(std::chrono::milliseconds(kDrainEveryMs));
            show_kept_output();
            if (status) return *status;
            while (const auto signal = signals_.take()) {
                if (*signal == SIGTERM || *signal == SIGHUP) launch->send(*signal);
                if (*signal == SIGINT && ++interrupts > (kept_output_ ? 0 : 1)) return 128 + SIGINT;
            }
        }
    }
    if (model_ && model_->total_samples(view_.which) > 0) return 0;
    return fail(ExitCode::kNoSamples, "no thread was sampled", view_.which == WhichThreads::kRunning ? "threads that sleep or wait are left out: see --idle" : "");
}

Result<int> TopCommand::run() {
    view_.which = settings_.which;
    view_.refresh = settings_.interval;
    view_.per_thread = settings_.per_thread;
    view_.with_lines = settings_.with_lines;
    view_.with_errors = settings_.with_errors;
    const auto started = start();
    if (!started) return tl::unexpected(started.error());
    if (*started) {
        begin_recording();
        watch();
        terminal_.reset();
        recorder_->request_stop();
        recorder_->join();
    }
    return finish();
}

}  // namespace

Result<int> run_top(const TopSettings& settings) { return TopCommand(settings).run(); }

}  // namespace pyprof
