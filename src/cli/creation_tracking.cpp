// SPDX-License-Identifier: Apache-2.0
#include "cli/creation_tracking.h"

#include "target/live_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace pyprof {

namespace {

// A thread that sleeps in the kernel undisturbed is left to settle() after this.
constexpr int kLooksForLate = 1000;
constexpr std::chrono::milliseconds kPauseForLate{1};
constexpr const char* kField = "coroutine_origin_tracking_depth";

}  // namespace

CreationTracking::CreationTracking(std::unique_ptr<Target> target, PythonProcess process, WriteBack writer, int depth,
                                   bool may_stop)
    : target_(std::move(target)),
      process_(std::move(process)),
      asyncio_(*target_, process_.layout(), stacks_),
      writer_(std::move(writer)),
      stopper_(traced_process(target_->pid())),
      depth_(depth),
      may_stop_(may_stop) {}

Result<std::unique_ptr<CreationTracking>> CreationTracking::start(pid_t pid, int depth, bool may_stop) {
    auto writer = WriteBack::start(pid);
    if (!writer) return tl::unexpected(writer.error());
    auto target = open_live_target(pid);
    if (!target) return tl::unexpected(target.error());
    auto process = PythonProcess::attach(**target);
    if (!process) return tl::unexpected(process.error());
    return std::unique_ptr<CreationTracking>(
        new CreationTracking(std::move(*target), std::move(*process), std::move(*writer), depth, may_stop));
}

void CreationTracking::settle() {
    if (stopper_.has_late()) stopper_.release_late();
}

// False: it is gone or did not stop in time; then it runs on as soon as it comes to its stop.
bool CreationTracking::hold(pid_t tid) {
    if (stopper_.stop(tid)) return true;
    for (int i = 0; i < kLooksForLate && stopper_.has_late(); ++i) {
        std::this_thread::sleep_for(kPauseForLate);
        settle();
    }
    return false;
}

void CreationTracking::look() {
    if (is_finished_ || target_->has_ended()) return;
    const ThreadList list = process_.read_threads(*target_);
    if (!asyncio_.find(list.interpreters)) return;
    for (const RunningLoop& loop : asyncio_.find_loops(list)) {
        if (loop.is_trios) continue;  // who made its tasks is known without
        const auto known = std::find_if(threads_.begin(), threads_.end(), [&](const Thread& thread) { return thread.state == loop.thread; });
        for (const ThreadState& state : list.threads) {
            if (state.address != loop.thread) continue;
            if (known != threads_.end() && known->pthread == state.pthread) continue;
            if (known != threads_.end()) threads_.erase(known);  // another thread's state at the same address
            track(state);
            break;
        }
    }
}

void CreationTracking::track(const ThreadState& state) {
    const Layout& layout = process_.layout();
    const Offset offset = asyncio_.asyncio_layout().thread.origin_depth;
    if (!has(offset)) return;
    Thread thread;
    thread.state = state.address;
    thread.pthread = state.pthread;
    thread.tid = process_.tid_of(*target_, state);
    thread.word.address = state.address + at(offset);
    thread.word.after = depth_;
    thread.word.guards[0] = {state.address + at(layout.thread.interp), raw(state.interpreter)};
    thread.word.guards[1] = {state.address + at(layout.thread.thread_id), state.pthread};
    if (has(layout.thread.native_thread_id)) {
        thread.word.guards[2] = {state.address + at(layout.thread.native_thread_id), state.native_thread_id};
    }
    // A thread that can't be held now is tried again at the next look.
    const bool is_held = may_stop_ && hold(thread.tid);
    if (may_stop_ && !is_held) return;
    const WriteBack::Outcome outcome = writer_.put(thread.word);
    if (is_held) stopper_.resume();
    switch (outcome) {
        case WriteBack::Outcome::kDone:
            thread.is_written = true;
            messages_.push_back(fmt::format("wrote {} = {} in thread {}; it is put back at the end", kField, depth_, thread.tid));
            break;
        case WriteBack::Outcome::kChanged:
            messages_.push_back(fmt::format("{} of thread {} is not 0: the program notes creation itself, and is left alone", kField, thread.tid));
            break;
        case WriteBack::Outcome::kRefused:
            messages_.push_back(fmt::format("{} of thread {} can't be written", kField, thread.tid));
            break;
        case WriteBack::Outcome::kGone:
            return;
    }
    threads_.push_back(thread);
}

void CreationTracking::finish() {
    if (is_finished_) return;
    is_finished_ = true;
    bool has_written = false;
    for (const Thread& thread : threads_) {
        if (!thread.is_written) continue;
        has_written = true;
        const bool is_held = may_stop_ && hold(thread.tid);
        const WriteBack::Outcome outcome = writer_.undo(thread.word);
        if (is_held) stopper_.resume();
        if (outcome == WriteBack::Outcome::kDone) {
            messages_.push_back(fmt::format("put back {} = 0 in thread {}", kField, thread.tid));
        } else if (outcome == WriteBack::Outcome::kGone) {
            messages_.push_back(fmt::format("thread {} has ended: there is nothing to put back", thread.tid));
        } else {
            messages_.push_back(fmt::format("{} of thread {} was changed by someone else, and is left as it is", kField, thread.tid));
        }
    }
    if (!has_written && threads_.empty()) messages_.emplace_back("--track-creation: no event loop was found, nothing was written");
}

std::vector<std::string> CreationTracking::take_messages() { return std::exchange(messages_, {}); }

}  // namespace pyprof
