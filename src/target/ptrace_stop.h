// SPDX-License-Identifier: Apache-2.0
//
// Stopping threads, the only place where ptrace is called. What is stopped runs again on every path: by
// the destructors here, and by the kernel when we die (PTRACE_O_EXITKILL is never set). A signal that
// arrives meanwhile is passed on, and a thread that was stopped by a signal before stays so.
//
// Ptrace belongs to a thread: whoever stops must also resume, on the same thread of ours.
#pragma once

#include "base/blocked_signals.h"

#include <pyprof/error.h>
#include <pyprof/registers.h>
#include <pyprof/target.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pyprof {

// Whose threads they are. The end of a process that we have started is left to whoever waits for it.
struct TracedProcess {
    pid_t pid = 0;
    bool is_our_child = false;
};

// One thread under our ptrace: seized, interrupted, perhaps already stopped.
class TracedThread {
public:
    // Seizes and interrupts without waiting; errno on failure.
    static tl::expected<TracedThread, int> seize(const TracedProcess& process, pid_t tid);
    ~TracedThread();
    TracedThread(TracedThread&& other) noexcept;
    TracedThread& operator=(TracedThread&& other) noexcept;
    TracedThread(const TracedThread&) = delete;
    TracedThread& operator=(const TracedThread&) = delete;

    // True once it is stopped or gone; false when `patience` ran out: it sleeps in the kernel where it
    // can't be disturbed, and stops as soon as it comes back.
    bool wait(std::chrono::nanoseconds patience);
    [[nodiscard]] bool is_stopped() const { return state_ == State::kStopped; }
    [[nodiscard]] bool is_settled() const { return state_ != State::kPending; }  // stopped or gone
    [[nodiscard]] pid_t tid() const { return tid_; }
    // Lets it run, or collects its end. One that has not stopped yet can't be let go: it is waited for as
    // long as `patience`, and false says that this was too short.
    bool let_go(std::chrono::nanoseconds patience);
    // While it is stopped.
    [[nodiscard]] std::optional<RegisterSet> read_registers() const;
    // The last moment of which it is known that it was not stopped yet: it is held for no longer than from then on.
    [[nodiscard]] std::chrono::nanoseconds last_free() const { return last_free_; }

private:
    enum class State { kPending, kStopped, kGone };
    TracedThread(pid_t tid, bool leaves_end, std::chrono::nanoseconds now) : tid_(tid), leaves_end_(leaves_end), last_free_(now) {}
    void poll();

    pid_t tid_ = 0;
    bool leaves_end_ = false;
    std::chrono::nanoseconds last_free_{0};
    State state_ = State::kPending;
    int signal_ = 0;  // to be passed on when it runs again
};

// Every thread of a process. Meanwhile a Ctrl-Z waits that would stop us on this thread: the target would stand as long.
class ProcessStop final : public Stop {
public:
    struct Threads {
        std::function<std::vector<pid_t>()> list;
        std::function<char(pid_t)> state;  // its letter (proc_pid_stat(5)); 'X' where there is no such thread
    };

    // Fails with the errno of the seizure that was refused; ESRCH when no thread is left. Nothing is left
    // stopped then.
    static tl::expected<std::unique_ptr<ProcessStop>, int> stop_all(const TracedProcess& process,
                                                                    const Threads& threads);

    ~ProcessStop() override;

    [[nodiscard]] std::optional<RegisterSet> read_registers(pid_t tid) const override;

    // Threads that did not stop in time because they sleep in the kernel. They run no code of their
    // own until the stop is over.
    [[nodiscard]] std::size_t unstopped() const;

private:
    void wait_for_stops(const Threads& threads, std::chrono::nanoseconds deadline);

    BlockedSignals no_stop_of_ours_{SIGTSTP, SIGTTIN, SIGTTOU};  // until the threads run again
    std::vector<TracedThread> threads_;
};

// Stops single threads for a moment, again and again. Each stop seizes and lets go: staying attached would
// make every signal of the target wait for us, and saves only some 2 us of 50. Tests put stops of a made-up process in place
// of what is virtual.
class ThreadStopper {
public:
    explicit ThreadStopper(const TracedProcess& process) : process_(process) {}
    virtual ~ThreadStopper() = default;
    ThreadStopper(const ThreadStopper&) = delete;
    ThreadStopper& operator=(const ThreadStopper&) = delete;

    // The thread is stopped until resume(). False: it is gone, can't be seized, or did not stop within
    // `patience`; then it runs on.
    [[nodiscard]] virtual bool stop(pid_t tid, std::chrono::nanoseconds patience = std::chrono::milliseconds(5));
    virtual void resume();
    // Of the thread that is stopped. Empty when it is gone after all.
    [[nodiscard]] std::optional<RegisterSet> read_registers() const;

    // How long the thread may have been held by now, at the most.
    [[nodiscard]] std::chrono::nanoseconds held_for() const;

    // Lets go of threads that came to their stop, or to their end, too late. Call it every millisecond or so while
    // has_late(). Returns for how long they may have been held.
    std::chrono::nanoseconds release_late();
    [[nodiscard]] bool has_late() const { return !late_.empty(); }

private:
    TracedProcess process_;
    std::vector<TracedThread> held_;  // none or one
    std::vector<TracedThread> late_;
    std::chrono::nanoseconds late_seen_{0};  // when they were looked at last
};

}  // namespace pyprof
