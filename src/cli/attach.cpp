// SPDX-License-Identifier: Apache-2.0
#include "cli/attach.h"

#include "base/clock.h"
#include "python/layouts.h"
#include "target/invoking_user.h"
#include "target/live_target.h"
#include "target/stopped.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace pyprof {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLookAgain = milliseconds(1);
// A launched program that is no Python so far may never become one: it is looked at less often then.
constexpr nanoseconds kEager = std::chrono::seconds(2);
constexpr nanoseconds kLookAgainLater = milliseconds(20);
// A program may start one that is: a shell, say. It is looked for often enough to be seen if it lives as long as an interpreter
// takes to start.
constexpr nanoseconds kLookForChild = milliseconds(10);
// A scan of data segments, for interpreters without symbols, costs tens of milliseconds where there is none. It
// is tried at ages that double.
constexpr nanoseconds kFirstScan = milliseconds(25);
// After this long without an interpreter it is told; there may still come one.
constexpr nanoseconds kNotice = std::chrono::seconds(5);
// For a process that was given: after this long it counts as not Python any more.
constexpr nanoseconds kAnotherPatience = std::chrono::seconds(2);
constexpr nanoseconds kCountEvery = std::chrono::seconds(1);
constexpr std::int64_t kCountShare = 50;

Result<Attached> attach_to(pid_t pid, const AttachOptions& options) {
    auto target = open_live_target(pid);
    if (!target) return tl::unexpected(target.error());
    auto process = PythonProcess::attach(**target, options);
    if (!process) return tl::unexpected(process.error());
    return Attached{std::move(*target), std::move(*process)};
}

bool may_pass(const Error& error) {
    return (error.code == ExitCode::kNoProcess || error.code == ExitCode::kNotPython) && !is_unsupported_version(error);
}

}  // namespace

Subject::Subject(pid_t pid, Launch launch) : pid_(pid), started_(monotonic_now()), launch_(std::move(launch)) {}

Result<Subject> Subject::launch(const std::vector<std::string>& command, const sigset_t& signal_mask, bool in_background) {
    LaunchRequest request;
    request.in_background = in_background;
    request.command = command;
    request.signal_mask = signal_mask;
    request.default_signals = {SIGPIPE};
    if (const auto user = find_invoking_user()) {
        request.run_as = user->run_as;
        request.environment = environment_of(*user);
    }
    auto started = Launch::start(request);
    if (!started) return tl::unexpected(started.error());
    const pid_t pid = started->pid();
    return Subject(pid, std::move(*started));
}

std::string Subject::hint_of_child() const {
    if (!python_child_) return "";
    return fmt::format("process {} below it was one ({}): start that one behind --, or by exec in a shell, or profile it with --pid",
                       python_child_->pid, command_text(*python_child_));
}

nanoseconds Subject::age() const { return monotonic_now() - started_; }

Result<std::optional<Attached>> Subject::attach(const Waiting& waiting) {
    if (launch_) return wait_for_python(waiting);
    auto attached = attach_to(pid_, {true, kStartPatience});
    if (!attached) return tl::unexpected(attached.error());
    return std::optional<Attached>(std::move(*attached));
}

Result<std::optional<Attached>> Subject::attach_again(const Waiting& waiting) {
    return launch_ ? wait_for_python(waiting) : look_for_another(waiting);
}

Result<std::optional<Attached>> Subject::wait_for_python(const Waiting& waiting) {
    const auto began = monotonic_now();
    nanoseconds next_scan = kFirstScan;
    nanoseconds next_look{0};
    bool told = false;
    PythonChildren children;
    while (true) {
        const auto waited = monotonic_now() - began;
        const bool may_scan = waited >= next_scan;
        if (may_scan) next_scan = 2 * waited;
        auto attached = attach_to(pid_, {may_scan, nanoseconds{0}});
        if (attached) return std::optional<Attached>(std::move(*attached));
        if (!may_pass(attached.error())) return tl::unexpected(attached.error());
        if (may_scan || waited >= next_look) {
            next_look = waited + kLookForChild;
            if (auto child = children.find(read_descendants_of(pid_), may_scan)) python_child_ = std::move(child);
        }
        if (!told && waited > kNotice) {
            told = true;
            waiting.tell(attached.error());
        }
        if (launch_->wait(waited < kEager ? kLookAgain : kLookAgainLater) || waiting.must_end()) return std::optional<Attached>();
    }
}

Result<std::optional<Attached>> Subject::look_for_another(const Waiting& waiting) {
    const auto began = monotonic_now();
    while (true) {
        const auto waited = monotonic_now() - began;
        const bool is_last = waited >= kAnotherPatience;
        auto attached = attach_to(pid_, {is_last, nanoseconds{0}});
        if (attached) return std::optional<Attached>(std::move(*attached));
        if (attached.error().code == ExitCode::kNoProcess || waiting.must_end()) return std::optional<Attached>();
        if (is_last || !may_pass(attached.error())) return tl::unexpected(attached.error());
        std::this_thread::sleep_for(kLookAgain);
    }
}

Error no_samples(pid_t pid, WhichThreads which, std::string_view consequence) {
    const auto target = open_live_target(pid);
    if (const StoppedBy by = target ? stopped_by(**target) : StoppedBy::kNobody; by != StoppedBy::kNobody) {
        return {ExitCode::kNoSamples, fmt::format("no thread was sampled: process {} is {}{}", pid, what_of(by), consequence),
                remedy_of(by, pid) + (which == WhichThreads::kAll ? "" : "; --idle shows where its threads stand")};
    }
    return {ExitCode::kNoSamples, fmt::format("no thread was sampled{}", consequence),
            which == WhichThreads::kRunning ? "threads that sleep or wait are left out: see --idle" : ""};
}

void ChildCounter::look(pid_t parent, nanoseconds now) {
    if (now < next_) return;
    for (const ProcessFacts& facts : read_descendants_of(parent)) {
        if (seen_.count(facts.pid) == 0 && children_.is_python(facts, true)) seen_.insert(facts.pid);
    }
    next_ = now + std::max(kCountEvery, (monotonic_now() - now) * kCountShare);
}

}  // namespace pyprof
