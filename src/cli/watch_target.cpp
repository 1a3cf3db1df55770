// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_target.h"

#include "base/clock.h"

#include <utility>

namespace pyprof {

Result<void> WatchTarget::launch(const std::vector<std::string>& command, const sigset_t& signal_mask, bool in_background) {
    auto subject = Subject::launch(command, signal_mask, in_background);
    if (!subject) return tl::unexpected(subject.error());
    launched_ = std::make_unique<Subject>(std::move(*subject));
    current_ = launched_.get();
    return {};
}

Result<bool> WatchTarget::start(std::optional<pid_t> pid, const Sampling& sampling, const Subject::Waiting& waiting) {
    std::unique_ptr<Subject> other;
    Subject* subject = current_;
    if (pid && launched_ && launched_->pid() == *pid) {
        subject = launched_.get();
    } else if (pid) {
        other = std::make_unique<Subject>(*pid);
        subject = other.get();
    }
    if (subject == nullptr) return fail(ExitCode::kUsage, "no process given", "use start --pid N");
    auto attached = subject->attach(waiting);
    if (!attached) return tl::unexpected(attached.error());
    if (!*attached) return false;
    stop();
    if (other) given_ = std::move(other);
    current_ = subject;
    sampling_ = sampling;
    sample(std::move(**attached));
    return true;
}

void WatchTarget::sample(Attached attached) {
    recorder_.reset();
    attached_.emplace(std::move(attached));
    if (auto facts = attached_->target->read_facts()) facts_ = std::move(*facts);
    ProfileFacts facts;
    facts.pid = current_->pid();
    facts.command = facts_.command;
    facts.working_directory = facts_.working_directory;
    facts.python = attached_->process.version_text();
    facts.rate_hz = sampling_.rate_hz;
    facts.started = std::chrono::system_clock::now();
    facts.which_threads = name_of(sampling_.which);
    RecordingOptions options;
    options.sampler.rate_hz = sampling_.rate_hz;
    options.sampler.which = sampling_.which;
    options.may_stop = !sampling_.nonblocking;
    recorder_.emplace(*attached_->target, attached_->process, options);
    session_.begin(recorder_->stacks(), std::move(facts), monotonic_now());
    recorder_->start();
}

void WatchTarget::drain() {
    if (!recorder_) return;
    const std::vector<ProfiledThread>& threads = recorder_->profile().threads();
    recorder_->drain([&](const SampleRecord& record) { session_.take(record, threads); });
    session_.update(threads, recorder_->profile().figures);
}

bool WatchTarget::stop() {
    if (!recorder_) return false;
    recorder_->request_stop();
    recorder_->join();
    drain();
    recorder_.reset();
    attached_.reset();
    return true;
}

WatchTarget::After WatchTarget::after_end(const Subject::Waiting& waiting) {
    stop();
    auto next = current_->attach_again(waiting);
    if (!next) return After::kNotPython;
    if (!*next) return After::kEnded;
    sample(std::move(**next));
    return After::kGoesOn;
}

}  // namespace pyprof
