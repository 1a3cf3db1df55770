// SPDX-License-Identifier: Apache-2.0
//
// `pyprof top`: attaches or launches as record does, samples all threads, and shows what the person chose. A launched
// program is never ended by it; while the screen is ours what the program prints is kept, and shown afterwards.
#include "base/clock.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/kept_output.h"
#include "cli/messages.h"
#include "cli/signals.h"
#include "cli/top_recording.h"
#include "live/source_text.h"
#include "live/terminal.h"
#include "live/top_details.h"
#include "live/top_plain.h"
#include "live/top_screen.h"
#include "live/top_view.h"

#include <fmt/format.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kLookForEnd{50};

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
    void redraw();
    void print();            // without a screen
    void show_details();
    void suspend();
    Result<int> finish();
    Subject::Waiting waiting();
    [[nodiscard]] int wait_ms() const;

    TopSettings settings_;
    Signals signals_;
    std::unique_ptr<Terminal> terminal_;
    std::optional<Subject> subject_;
    std::optional<Attached> attached_;
    std::unique_ptr<TopRecording> recording_;
    TopView view_;
    std::vector<TopLine> lines_;
    nanoseconds next_refresh_{0};
    KeptOutput output_;  // of a launched program
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

Result<bool> TopCommand::start() {
    const bool wants_screen = !settings_.batch && !settings_.json;
    const bool can = wants_screen && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (settings_.pid) {
        subject_.emplace(*settings_.pid);
    } else {
        if (can) output_.begin();
        auto launched = Subject::launch(settings_.command, signals_.original_mask(), can);
        output_.end();
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
    recording_ = std::make_unique<TopRecording>(*attached_, subject_->pid(),
                                                TopRecording::Settings{settings_.rate_hz, settings_.nonblocking, settings_.full_filenames, settings_.command}, view_);
    next_refresh_ = monotonic_now() + view_.refresh;
}

void TopCommand::redraw() {
    if (!terminal_) return;
    lines_ = make_top_lines(recording_->data(), view_);
    keep_in_view(view_, lines_, top_layout(terminal_->rows()).page);
    terminal_->draw(draw_top(recording_->data(), view_, lines_, terminal_->rows(), terminal_->columns()));
}

void TopCommand::print() {
    const TopData& data = recording_->data();
    lines_ = make_top_lines(data, view_);
    const std::string text = settings_.json ? json_line(data, view_, lines_) : plain_table(data, view_, lines_, settings_.most_rows);
    if (!print_out(text)) must_end_ = true;
    ++printed_;
    if (settings_.count && printed_ >= *settings_.count) must_end_ = true;
}

void TopCommand::show_details() {
    const int selected = selected_line(lines_, view_);
    if (selected < 0) return;
    const TopFunction function = recording_->data().tree.functions[lines_[static_cast<std::size_t>(selected)].function];
    std::vector<std::string> source;
    std::string note;
    if (!function.full_file.empty()) {
        auto read = read_source(subject_->pid(), function.full_file);
        if (read) source = std::move(read->lines);
        note = !read ? read.error().message : read->is_newer ? "the file is newer than the process" : "";
    }
    view_.details = make_details(recording_->since_start(view_), function, source, note);
    view_.details_scroll = first_detail(*view_.details, terminal_->rows());
}

// No thread of the target is in our hand meanwhile.
void TopCommand::suspend() {
    recording_->hold();
    if (terminal_) terminal_->suspend();
    Signals::stop_process();
    if (terminal_) terminal_->resume();
    recording_->release();
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
        case TopAction::kRecord:
            view_.message = recording_->change(view_);
            recording_->recount(view_);
            break;
        case TopAction::kRecount:
            recording_->recount(view_);
            break;
        case TopAction::kReset:
            recording_->reset(view_);
            break;
        case TopAction::kDetails:
            show_details();
            break;
        case TopAction::kSave:
            view_.message = recording_->save(view_.typed, view_);
            break;
        case TopAction::kRedraw:
            break;
    }
    redraw();
}

void TopCommand::take_keys() {
    while (const auto key = terminal_->take_key()) {
        if (!recording_) continue;
        const TopLayout layout = top_layout(terminal_->rows());
        lines_ = make_top_lines(recording_->data(), view_);
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
            if (recording_) redraw();
            continue;
        }
        if (*signal == SIGTSTP) {
            if (recording_) suspend();
            if (recording_) redraw();
            continue;
        }
        if (Launch* launch = subject_ ? subject_->launched() : nullptr; launch != nullptr && *signal != SIGINT) launch->send(*signal);
        must_end_ = true;
    }
}

// A process that executes another program is gone on with, from zero.
bool TopCommand::follow_the_target() {
    recording_->join();
    if (!must_end_ && recording_->target_ended()) {
        auto next = subject_->attach_again(waiting());
        if (next && *next) {
            recording_.reset();
            attached_.emplace(std::move(**next));
            begin_recording();
            view_.message = "the process executed another program: Python " + recording_->data().facts.python;
            return true;
        }
    }
    recording_->note_end();
    recording_->end_interval(view_);
    if (!terminal_) print();
    redraw();
    return false;
}

int TopCommand::wait_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_refresh_ - monotonic_now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 1, recording_->drain_pause().count()));
}

void TopCommand::watch() {
    redraw();
    bool is_sampling = true;
    while (!must_end_) {
        pollfd waits[] = {{signals_.fd(), POLLIN, 0}, {terminal_ ? STDIN_FILENO : -1, POLLIN, 0}, {is_sampling ? recording_->finished_fd() : -1, POLLIN, 0}};
        ::poll(waits, 3, is_sampling ? wait_ms() : -1);
        handle_signals();
        if (terminal_) take_keys();
        if ((waits[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) must_end_ = true;  // the terminal is gone
        if (must_end_ || !is_sampling) continue;
        if (recording_->is_finished()) {
            is_sampling = follow_the_target();
            if (!is_sampling && !terminal_) return;
            continue;
        }
        recording_->drain();
        if (monotonic_now() < next_refresh_) continue;
        next_refresh_ = std::max(next_refresh_ + view_.refresh, monotonic_now());
        if (view_.is_paused) continue;
        recording_->end_interval(view_);
        terminal_ ? redraw() : print();
    }
}

Result<int> TopCommand::finish() {
    if (Launch* launch = subject_->launched()) {
        output_.show();
        if (!recording_ && launch->wait(nanoseconds{0})) {
            print_line(fmt::format("pyprof: {} ended and was no Python", settings_.command.front()));
            if (const std::string hint = subject_->hint_of_child(); !hint.empty()) print_line("hint: " + hint);
        }
        if (!launch->wait(nanoseconds{0}) && output_.is_kept()) {
            print_line(fmt::format("pyprof: {} (process {}) runs on; Ctrl-C leaves it alone", settings_.command.front(), launch->pid()));
        }
        int interrupts = 0;
        while (true) {
            const auto status = launch->wait(kLookForEnd);
            output_.show();
            if (status) return *status;
            while (const auto signal = signals_.take()) {
                if (*signal == SIGTERM || *signal == SIGHUP) launch->send(*signal);
                if (*signal == SIGINT && ++interrupts > (output_.is_kept() ? 0 : 1)) return 128 + SIGINT;
            }
        }
    }
    if (recording_ && recording_->total_samples(view_) > 0) return 0;
    return tl::unexpected(no_samples(subject_->pid(), view_.which));
}

Result<int> TopCommand::run() {
    view_.which = settings_.which;
    view_.refresh = settings_.interval;
    view_.per_thread = settings_.per_thread;
    view_.with_lines = settings_.with_lines;
    view_.with_errors = settings_.with_errors;
    view_.with_native = settings_.native;
    view_.async = settings_.async;
    const auto started = start();
    if (!started) return tl::unexpected(started.error());
    if (*started) {
        begin_recording();
        watch();
        terminal_.reset();
        recording_->stop();
    }
    return finish();
}

}  // namespace

Result<int> run_top(const TopSettings& settings) { return TopCommand(settings).run(); }

}  // namespace pyprof
