// SPDX-License-Identifier: Apache-2.0
//
// PTRACE_SEIZE and PTRACE_INTERRUPT (ptrace(2)): unlike PTRACE_ATTACH they send no signal and keep a
// group stop as it was. A thread may report another stop than the one asked for: a signal that was on its
// way (then it is stopped as well, and the signal goes with the detach) or the group stop that it was in.
//
// Stops are read with WNOWAIT: waiting for one in earnest clears the pending signal in the kernel
// (wait_task_stopped in kernel/exit.c), and it would be lost if we died before the detach.
#include "target/ptrace_stop.h"

#include "base/clock.h"
#include "target/run_delay.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

namespace pyprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Threads of one process stop within some 50 us each unless they wait for a disk or a vfork child, or for a processor.
// Those that did stop stand meanwhile: once there are any, one that the kernel holds is waited for no longer than this after
// the last stop.
constexpr nanoseconds kProcessPatience = milliseconds(1000);
constexpr nanoseconds kPatienceAfterStop = milliseconds(20);
constexpr nanoseconds kTurn = milliseconds(1);  // with each thread that has not stopped yet
constexpr nanoseconds kDetachPatience = milliseconds(200);
// Each pass finds the threads that were born during the one before it; stopped threads bear none.
constexpr int kMostPasses = 64;

// Looks again at once while a stop is likely near, then sleeps in growing steps. A stop sends SIGCHLD, which ends
// the sleep where nobody else takes it: a thread that wakes is put on a processor sooner than one that goes on
// looking, and the target is held meanwhile.
class Pause {
public:
    explicit Pause(nanoseconds patience) {
        const nanoseconds now = monotonic_now();
        spin_end_ = now + kSpin;
        deadline_ = now + patience;
    }
    // False when the time is up. Else the moment from which on the stop may have come, as far as it is known.
    std::optional<nanoseconds> take() {
        const nanoseconds now = monotonic_now();
        if (now >= deadline_) return {};
        if (now < spin_end_) return now;
        const nanoseconds nap = std::min<nanoseconds>(deadline_ - now, kFirstNap * (1U << std::min(naps_++ / 8, 5U)));
        const timespec time{0, static_cast<long>(nap.count())};
        const sigset_t child = set_of({SIGCHLD});
        const auto delay_before = own_run_delay();
        sigtimedwait(&child, nullptr, &time);
        const auto delay = own_run_delay();
        if (!delay_before || !delay) return now;
        return std::max(now, monotonic_now() - (*delay - *delay_before));
    }

private:
    static constexpr nanoseconds kSpin = std::chrono::microseconds(30);
    static constexpr nanoseconds kFirstNap = std::chrono::microseconds(25);  // the longest is 0.8 ms

    nanoseconds deadline_;
    nanoseconds spin_end_;
    unsigned naps_ = 0;
};

long call_ptrace(int request, pid_t tid, unsigned long data) {
    return ::ptrace(static_cast<__ptrace_request>(request), tid, nullptr, data);
}

}  // namespace

tl::expected<TracedThread, int> TracedThread::seize(const TracedProcess& process, pid_t tid) {
    if (call_ptrace(PTRACE_SEIZE, tid, 0) != 0) return tl::unexpected<int>(errno);
    TracedThread thread(tid, process.is_our_child && tid == process.pid, monotonic_now());
    if (call_ptrace(PTRACE_INTERRUPT, tid, 0) != 0) thread.poll();  // ESRCH: it has just ended
    return thread;
}

TracedThread::TracedThread(TracedThread&& other) noexcept
    : tid_(other.tid_),
      leaves_end_(other.leaves_end_),
      last_free_(other.last_free_),
      state_(std::exchange(other.state_, State::kGone)),
      signal_(other.signal_) {}

TracedThread& TracedThread::operator=(TracedThread&& other) noexcept {
    if (this == &other) return *this;
    let_go(kDetachPatience);
    tid_ = other.tid_;
    leaves_end_ = other.leaves_end_;
    last_free_ = other.last_free_;
    state_ = std::exchange(other.state_, State::kGone);
    signal_ = other.signal_;
    return *this;
}

// Where even this is too short, the kernel lets the thread go when ours ends.
TracedThread::~TracedThread() {
    let_go(kDetachPatience);
}

void TracedThread::poll() {
    siginfo_t info{};
    constexpr int kOptions = WSTOPPED | WEXITED | WNOHANG | __WALL | __WNOTHREAD;
    if (::waitid(P_PID, static_cast<id_t>(tid_), &info, kOptions | WNOWAIT) != 0) {
        if (errno != EINTR)
            state_ = State::kGone;  // ECHILD: no longer ours, an exec by another thread took it
        return;
    }
    if (info.si_pid == 0) return;  // nothing yet
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
        // si_status is signal | event << 8; an event stop carries no signal of the target's.
        signal_ = (info.si_status >> 8) == 0 ? info.si_status & 0x7f : 0;
        state_ = State::kStopped;
        return;
    }
    state_ = State::kGone;
    // An ended tracee stays a zombie until its tracer has collected it.
    if (!leaves_end_) ::waitid(P_PID, static_cast<id_t>(tid_), &info, kOptions);
}

bool TracedThread::wait(nanoseconds patience) {
    Pause pause(patience);
    while (true) {
        if (state_ == State::kPending) poll();
        if (state_ != State::kPending) return true;
        const auto free = pause.take();
        if (!free) return false;
        last_free_ = *free;
    }
}

bool TracedThread::let_go(nanoseconds patience) {
    if (state_ == State::kPending) wait(patience);
    if (state_ == State::kStopped) {
        const bool is_detached = call_ptrace(PTRACE_DETACH, tid_, static_cast<unsigned long>(signal_)) == 0;
        // Else ESRCH: it was killed while stopped. Its end has to be collected or its process stays a zombie,
        // but that of our own child's leader shows only when its waiter may have it.
        state_ = is_detached || leaves_end_ ? State::kGone : State::kPending;
        if (state_ == State::kPending) wait(patience);
    }
    return state_ == State::kGone;
}

// A thread of 32-bit code gives a shorter set, whose stacks we don't know.
std::optional<RegisterSet> TracedThread::read_registers() const {
    user_regs_struct raw{};
    iovec to{&raw, sizeof raw};
    if (!is_stopped() || ::ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &to) != 0 ||
        to.iov_len != sizeof raw) {
        return std::nullopt;
    }
    const std::uint64_t numbered[] = {raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi,
                                      raw.rbp, raw.rsp, raw.r8,  raw.r9,  raw.r10, raw.r11,
                                      raw.r12, raw.r13, raw.r14, raw.r15, raw.rip};
    static_assert(std::size(numbered) == RegisterSet::kCount);
    RegisterSet registers;
    for (unsigned i = 0; i < RegisterSet::kCount; ++i) registers.set(i, numbered[i]);
    return registers;
}

tl::expected<std::unique_ptr<ProcessStop>, int> ProcessStop::stop_all(const TracedProcess& process,
                                                                      const Threads& threads) {
    auto stop = std::unique_ptr<ProcessStop>(new ProcessStop);
    std::vector<pid_t> seen;
    const nanoseconds deadline = monotonic_now() + kProcessPatience;
    for (int pass = 0; pass < kMostPasses; ++pass) {
        const std::size_t before = stop->threads_.size();
        for (const pid_t tid : threads.list()) {
            if (std::find(seen.begin(), seen.end(), tid) != seen.end()) continue;
            seen.push_back(tid);
            auto thread = TracedThread::seize(process, tid);
            if (thread) {
                stop->threads_.push_back(std::move(*thread));
                continue;
            }
            // A zombie can't be seized and needs no stop.
            const char state = thread.error() == ESRCH ? 'X' : threads.state(tid);
            if (state != 'Z' && state != 'X') return tl::unexpected<int>(thread.error());
        }
        if (stop->threads_.size() == before) break;
        stop->wait_for_stops(threads, deadline);
    }
    if (stop->threads_.empty()) return tl::unexpected<int>(ESRCH);
    return stop;
}

// In turns: one that does not come to its stop must not be waited for while all others stand already. One that waits for a
// processor comes to it as soon as it has one.
void ProcessStop::wait_for_stops(const Threads& threads, nanoseconds deadline) {
    const auto is_pending = [](const TracedThread& thread) { return !thread.is_settled(); };
    const auto may_stop_soon = [&](const TracedThread& thread) { return is_pending(thread) && threads.state(thread.tid()) != 'D'; };
    nanoseconds until = unstopped() == threads_.size() ? deadline : monotonic_now() + kPatienceAfterStop;
    while (std::any_of(threads_.begin(), threads_.end(), is_pending)) {
        for (TracedThread& thread : threads_) {
            if (!is_pending(thread)) continue;
            const nanoseconds left = deadline - monotonic_now();
            if (left <= nanoseconds(0)) return;
            if (thread.wait(std::min(left, kTurn))) until = monotonic_now() + kPatienceAfterStop;
        }
        if (monotonic_now() >= until && std::none_of(threads_.begin(), threads_.end(), may_stop_soon)) return;
    }
}

// Those that stand first: for one that has not come to its stop yet the destructor waits. The leader, which comes first, last:
// its end shows only after that of all others.
ProcessStop::~ProcessStop() {
    for (auto thread = threads_.rbegin(); thread != threads_.rend(); ++thread) {
        if (thread->is_stopped()) thread->let_go(nanoseconds(0));
    }
    while (!threads_.empty()) threads_.pop_back();
}

std::size_t ProcessStop::unstopped() const {
    return static_cast<std::size_t>(std::count_if(threads_.begin(), threads_.end(),
                                                  [](const TracedThread& t) { return !t.is_stopped(); }));
}

std::optional<RegisterSet> ProcessStop::read_registers(pid_t tid) const {
    for (const TracedThread& thread : threads_) {
        if (thread.tid() == tid) return thread.read_registers();
    }
    return std::nullopt;
}

bool ThreadStopper::stop(pid_t tid, nanoseconds patience) {
    resume();
    for (const TracedThread& thread : late_) {
        if (thread.tid() == tid) return false;
    }
    auto thread = TracedThread::seize(process_, tid);
    if (!thread) return false;
    const bool is_settled = thread->wait(patience);
    const bool is_stopped = thread->is_stopped();
    if (is_stopped) {
        held_.push_back(std::move(*thread));
    } else if (!is_settled) {
        late_.push_back(std::move(*thread));
        late_seen_ = monotonic_now();
    }
    return is_stopped;
}

void ThreadStopper::resume() {
    held_.clear();
}

std::optional<RegisterSet> ThreadStopper::read_registers() const {
    return held_.empty() ? std::nullopt : held_.front().read_registers();
}

nanoseconds ThreadStopper::held_for() const { return held_.empty() ? nanoseconds{0} : monotonic_now() - held_.front().last_free(); }

nanoseconds ThreadStopper::release_late() {
    const std::size_t before = late_.size();
    late_.erase(std::remove_if(late_.begin(), late_.end(),
                               [](TracedThread& thread) { return thread.let_go(nanoseconds(0)); }),
                late_.end());
    const nanoseconds now = monotonic_now();
    const nanoseconds since = now - std::exchange(late_seen_, now);
    return since * static_cast<std::int64_t>(before - late_.size());
}

}  // namespace pyprof
