// SPDX-License-Identifier: Apache-2.0
//
// Copies of real threads, and that taking them harms nobody: no signal is lost, no job control undone, nobody
// is left stopped.
#include "native/stack_copier.h"

#include "../target/forked_child.h"
#include "target/live_target.h"

#include <fmt/format.h>

#include <sched.h>
#include <sys/ptrace.h>
#include <algorithm>
#include <atomic>
#include <thread>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

class Copying {
public:
    explicit Copying(pid_t pid) : stopper(traced_process(pid)) {
        auto opened = open_live_target(pid);
        REQUIRE(opened);
        target = std::move(*opened);
        unwinder.emplace(*target);
        copier.emplace(target->memory(), unwinder->modules(), stopper);
    }
    CopyOutcome copy_running(pid_t tid) { return copier->copy_running(tid, {}, copy).outcome; }
    UnwindEnd unwind() {
        frames.clear();
        return unwinder->unwind(copy, frames).end;
    }
    std::vector<pid_t> threads() {
        std::vector<pid_t> tids;
        for (const ThreadId& thread : target->read_threads().value_or(std::vector<ThreadId>()))
            tids.push_back(thread.tid);
        return tids;
    }

    std::unique_ptr<Target> target;
    ThreadStopper stopper;
    std::optional<Unwinder> unwinder;
    std::optional<StackCopier> copier;
    StackCopy copy;
    std::vector<NativeFrame> frames;
};

bool becomes(Copying& copying, pid_t tid, char letter) {
    for (int i = 0; i < 1'000'000; ++i) {
        if (copying.target->read_state_letter(tid) == letter) return true;
        ::sched_yield();
    }
    return false;
}

constexpr int kQueued = 500;
std::atomic<int> in_order{0};

void take_queued(int, siginfo_t* info, void*) {
    if (info->si_value.sival_int == in_order) ++in_order;
}

void handle_queued() {
    struct sigaction action {};
    action.sa_sigaction = take_queued;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(SIGRTMIN, &action, nullptr);
}

}  // namespace

TEST_CASE("stack copy: the caller's ranges are read in the same stop, good or bad") {
    const ForkedChild child;
    Copying copying(child.pid());
    static const std::uint64_t kKnown = 0x1122'3344'5566'7788;  // at the same place in the fork
    std::uint64_t value = 0;
    std::uint64_t nowhere = 0;
    const ReadRange good{Address{reinterpret_cast<std::uint64_t>(&kKnown)},
                         std::as_writable_bytes(std::span(&value, 1))};
    const ReadRange bad{Address{16}, std::as_writable_bytes(std::span(&nowhere, 1))};
    for (int round = 0; round < 3; ++round) {
        value = 0;
        const ReadRange both[] = {good, bad};
        const auto copied = copying.copier->copy_running(child.pid(), both, copying.copy);
        REQUIRE(copied.outcome == CopyOutcome::kCopied);
        CHECK(copied.also.complete == 1);
        CHECK(copied.also.fault == ReadFault::kUnmapped);
        CHECK(value == kKnown);
        const Unwound unwound{copying.unwind()};
        CHECK(unwound.is_complete());
        copying.copier->learn(child.pid(), unwound, copying.frames);
    }
    // Once the end is known, no more than what is used is copied.
    CHECK(copying.copy.end() < copying.frames.back().cfa + 4096);
    CHECK(child.ping() == 'p');
}

TEST_CASE("stack copy: of a sleeping thread without a stop the certain frames are those of a stop") {
    const ForkedChild child;
    Copying copying(child.pid());
    REQUIRE(becomes(copying, child.pid(), 'S'));
    const Activity activity = copying.target->read_activity(child.pid());
    REQUIRE(activity.kind == Activity::Kind::kBlocked);
    REQUIRE(copying.copier->copy_blocked(child.pid(), activity, {}, copying.copy).outcome ==
            CopyOutcome::kCopied);
    const UnwindEnd end = copying.unwind();
    CHECK((end == UnwindEnd::kRoot || end == UnwindEnd::kUnknownRegister));
    const auto without_stop = copying.frames;
    REQUIRE_FALSE(without_stop.empty());
    REQUIRE(copying.copy_running(child.pid()) == CopyOutcome::kCopied);
    CHECK(copying.unwind() == UnwindEnd::kRoot);
    REQUIRE(without_stop.size() <= copying.frames.size());
    for (std::size_t i = 0; i < without_stop.size(); ++i) CHECK(without_stop[i].pc == copying.frames[i].pc);
}

TEST_CASE("stack copy: no queued signal is lost, doubled or taken out of turn") {
    in_order = 0;
    const ForkedChild child(handle_queued, [] { return in_order == kQueued ? 'y' : 'n'; });
    Copying copying(child.pid());
    std::thread sender([pid = child.pid()] {
        for (int i = 0; i < kQueued; ++i) {
            sigval value{};
            value.sival_int = i;
            while (::sigqueue(pid, SIGRTMIN, value) != 0) ::sched_yield();
            if (i % 8 == 0) ::sched_yield();
        }
    });
    int copied = 0;
    for (int i = 0; i < 300; ++i) copied += copying.copy_running(child.pid()) == CopyOutcome::kCopied ? 1 : 0;
    sender.join();
    CHECK(copied > 0);
    char answer = 'n';
    for (int i = 0; i < 10'000 && answer == 'n'; ++i) answer = child.ping();
    CHECK(answer == 'y');
}

TEST_CASE("stack copy: a process that Ctrl-Z has stopped stays stopped") {
    // A group of its own: whoever runs the tests may have left an orphaned one, which SIGTSTP does not stop.
    const ForkedChild child([] { ::setpgid(0, 0); });
    Copying copying(child.pid());
    ::kill(child.pid(), SIGTSTP);
    int status = 0;
    REQUIRE(::waitpid(child.pid(), &status, WUNTRACED) == child.pid());
    for (int i = 0; i < 50; ++i) {
        CHECK(copying.copy_running(child.pid()) == CopyOutcome::kCopied);
        REQUIRE(becomes(copying, child.pid(), 'T'));
    }
    CHECK(copying.unwind() == UnwindEnd::kRoot);
    child.send_ping();
    ::kill(child.pid(), SIGCONT);
    CHECK(child.read_answer() == 'p');
}

TEST_CASE("stack copy: a thread that waits for its vfork child holds nobody up") {
    int gate[2];
    REQUIRE(::pipe(gate) == 0);
    const ForkedChild child([&] {
        std::thread([&] {
            if (const pid_t inner = ::vfork(); inner == 0) {
                ::close(gate[1]);
                char byte = 0;
                while (::read(gate[0], &byte, 1) < 0) {
                }
                ::_exit(0);
            }
            while (true) ::pause();
        }).detach();
    });
    ::close(gate[0]);
    Copying copying(child.pid());
    const auto threads = copying.threads();
    REQUIRE(threads.size() == 2);
    REQUIRE(becomes(copying, threads[1], 'D'));
    for (int i = 0; i < 20; ++i) {
        CHECK(copying.copy_running(threads[1]) == CopyOutcome::kNotStopped);
        CHECK(child.ping() == 'p');
        CHECK(copying.copy_running(threads[0]) == CopyOutcome::kCopied);
        CHECK(child.ping() == 'p');
    }
    const char byte = 'g';
    REQUIRE(::write(gate[1], &byte, 1) == 1);
    ::close(gate[1]);
    for (int i = 0; i < 1'000'000 && copying.stopper.has_late(); ++i) {
        copying.stopper.release_late();
        ::sched_yield();
    }
    CHECK_FALSE(copying.stopper.has_late());
    CHECK(copying.copy_running(threads[1]) == CopyOutcome::kCopied);
}

TEST_CASE("stack copy: a thread under a foreign tracer is left alone") {
    const ForkedChild child;
    const ForkedChild tracer([&] { REQUIRE(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0); });
    Copying copying(child.pid());
    CHECK(copying.copy_running(child.pid()) == CopyOutcome::kNotStopped);
    CHECK(child.ping() == 'p');
}

TEST_CASE("stack copy: threads come and go while they are copied") {
    const ForkedChild child([] {
        std::thread([] {
            while (true) std::thread([] {}).join();
        }).detach();
    });
    Copying copying(child.pid());
    int copied = 0;
    for (int i = 0; i < 300; ++i) {
        for (const pid_t tid : copying.threads()) {
            if (copying.copy_running(tid) == CopyOutcome::kCopied) {
                ++copied;
                copying.unwind();
            }
            copying.copier->forget_thread(tid);
        }
        copying.stopper.release_late();
    }
    CHECK(copied >= 300);
    CHECK(child.ping() == 'p');
}

TEST_CASE("stack copy: killed at any instant, the copier leaves the target running") {
    const ForkedChild child;
    Copying copying(child.pid());  // each fork has its own of it
    for (int round = 0; round < 200; ++round) {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        const pid_t copier = ::fork();
        REQUIRE(copier >= 0);
        if (copier == 0) {
            const char byte = '+';
            if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
            while (true) copying.copy_running(child.pid());
        }
        ::close(ends[1]);
        char byte = 0;
        REQUIRE(::read(ends[0], &byte, 1) == 1);
        ::close(ends[0]);
        for (int i = 0; i < round * 7 % 101; ++i) ::sched_yield();
        ::kill(copier, SIGKILL);
        REQUIRE(::waitpid(copier, nullptr, 0) == copier);
        REQUIRE(child.ping() == 'p');
    }
}
