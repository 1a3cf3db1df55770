// SPDX-License-Identifier: Apache-2.0
#include "cli/top_recording.h"

#include "base/clock.h"
#include "cli/messages.h"
#include "output/output_file.h"
#include "profile/merge.h"
#include "target/invoking_user.h"

#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kHistory = 60;

TopModel::Choice choice_of(const TopView& view) { return {view.which, view.per_thread, view.with_native}; }

void remember(std::vector<double>& history, double value) {
    history.push_back(value);
    if (history.size() > kHistory) history.erase(history.begin());
}

std::string text_of(bool with_native, AsyncMode async, bool nonblocking) {
    if (with_native && nonblocking) return "native frames from now on, of sleeping threads alone (--nonblocking)";
    if (with_native) return "native frames from now on, by a short stop a sample";
    if (async == AsyncMode::kRunning) return "what runs stands below its tasks from now on";
    if (async == AsyncMode::kAll) return "all threads and waiting tasks from now on";
    return "Python frames alone from now on";
}

}  // namespace

TopRecording::TopRecording(Attached& attached, pid_t pid, Settings settings, const TopView& view)
    : attached_(attached), pid_(pid), settings_(std::move(settings)) {
    facts_.pid = pid;
    facts_.command = settings_.command;
    if (auto read = attached_.target->read_facts()) {
        if (!read->command.empty()) facts_.command = read->command;
        facts_.working_directory = read->working_directory;
    }
    facts_.python = attached_.process.version_text();
    facts_.rate_hz = settings_.rate_hz;
    facts_.started = std::chrono::system_clock::now();
    data_.facts.pid = pid;
    data_.facts.command = joined(facts_.command);
    data_.facts.python = facts_.python;
    data_.facts.asked_hz = settings_.rate_hz;
    data_.facts.processors = std::max(std::thread::hardware_concurrency(), 1U);
    usage_ = read_usage(pid);
    usage_read_ = monotonic_now();
    begin(view);
    recount(view);
}

TopRecording::~TopRecording() = default;

void TopRecording::begin(const TopView& view) {
    with_native_ = view.with_native;
    async_ = view.async;
    RecordingOptions options;
    options.sampler.rate_hz = settings_.rate_hz;
    options.sampler.which = WhichThreads::kAll;  // the view chooses among them
    options.sampler.async.mode = async_;
    options.may_stop = !settings_.nonblocking;
    options.native = with_native_;
    recorder_ = std::make_unique<Recorder>(*attached_.target, attached_.process, options);
    recorder_->profile().facts = facts_;
    if (async_ == AsyncMode::kAll) recorder_->profile().facts.tasks_base = "task-seconds";
    model_.begin(recorder_->profile(), recorder_->stacks(), recorder_->natives(), monotonic_now());
    recorder_->start();
}

void TopRecording::drain() {
    recorder_->drain([this](const SampleRecord& record) { model_.add(record); });
}

void TopRecording::join() {
    recorder_->join();
    drain();
}

void TopRecording::stop() {
    recorder_->request_stop();
    join();
}

RunFigures TopRecording::figures() const {
    RunFigures all = earlier_;
    add_figures(all, recorder_->profile().figures);
    return all;
}

std::string TopRecording::change(TopView& view) {
    if (view.with_native == with_native_ && view.async == async_) return "";
    if (recorder_->is_finished()) {
        view.with_native = with_native_;
        view.async = async_;
        return "nothing is recorded any more: what was counted stays as it is";
    }
    stop();
    const nanoseconds before = figures().elapsed - at_reset_.elapsed;
    add_figures(earlier_, recorder_->profile().figures);
    earlier_.remote_reads = earlier_.remote_bytes = 0;  // the target counts on
    model_.end();
    begin(view);
    return fmt::format("{}; the {:.1f} s before stay as counted", text_of(with_native_, async_, settings_.nonblocking),
                       std::chrono::duration<double>(before).count());
}

void TopRecording::recount(const TopView& view) {
    data_.which = view.which;
    data_.facts.has_waiting_tasks = model_.has_waiting_tasks();
    const TopModel::Choice choice = choice_of(view);
    const TopErrorsOf errors = !view.with_errors ? TopErrorsOf::kNothing : view.as_tree ? TopErrorsOf::kNodes : TopErrorsOf::kRows;
    data_.tree = make_top_tree(model_.last_interval(choice), model_.since_start(choice), view.with_lines, errors);
}

void TopRecording::measure_usage() {
    TopFacts& facts = data_.facts;
    const nanoseconds now = monotonic_now();
    const auto usage = read_usage(pid_);
    if (usage && usage_ && now > usage_read_) {
        facts.processors_used = static_cast<double>((usage->cpu - usage_->cpu).count()) / static_cast<double>((now - usage_read_).count());
        remember(facts.cpu_history, *facts.processors_used / facts.processors);
    }
    if (usage) facts.resident_bytes = usage->resident_bytes;
    facts.is_stopped = usage && usage->is_stopped;
    usage_ = usage;
    usage_read_ = now;
}

void TopRecording::end_interval(const TopView& view) {
    TopFacts& facts = data_.facts;
    const RunFigures now = figures();
    const RunFigures since = difference(now, at_reset_);
    const RunFigures last = difference(now, at_interval_);
    at_interval_ = now;
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
    if (attached_.process.layout().gil_kind != GilKind::kNone) {
        facts.gil_share = 100 * static_cast<double>(last.gil_ticks) / ticks;
        remember(facts.gil_history, *facts.gil_share / 100);
    }
    if (!facts.has_ended) measure_usage();  // a dead process has no memory: what it had last says more
    model_.end_interval();
    recount(view);
}

void TopRecording::reset(const TopView& view) {
    model_.reset(monotonic_now());
    at_reset_ = at_interval_ = figures();
    data_.facts.elapsed = data_.facts.interval = nanoseconds{0};
    data_.facts.ticks = data_.facts.refused = data_.facts.late = data_.facts.lost = 0;
    facts_.started = recorder_->profile().facts.started = std::chrono::system_clock::now();
    recount(view);
}

std::string TopRecording::save(const std::string& path, const TopView& view) {
    const Format* format = format_of_path(path);
    if (format == nullptr) format = find_format("flamegraph");
    ResolvedProfile profile = model_.whole(choice_of(view), settings_.full_filenames, format->wants_spans);
    const std::uint64_t truncated = profile.figures.truncated;
    profile.figures = difference(figures(), at_reset_);
    profile.figures.truncated += truncated;
    auto file = OutputFile::open(path, invoking_owner());
    if (!file) return file.error().message;
    const auto written = file->commit([&](std::ostream& out) { format->write(profile, {}, out); });
    if (!written) return written.error().message;
    const bool lost_order = format->wants_spans && !model_.has_order();
    return fmt::format("{}: {} samples as {}{}", path, profile.total_samples, format->name,
                       lost_order ? ", not in the order of time: there were too many" : "");
}

std::vector<TopSource> TopRecording::since_start(const TopView& view) const {
    return model_.since_start({view.which, false, view.with_native});
}

}  // namespace pyprof
