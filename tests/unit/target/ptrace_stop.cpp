// SPDX-License-Identifier: Apache-2.0
//
// Nobody is ever left stopped, no signal is lost, and a stopped process stays stopped.
#include "target/ptrace_stop.h"

#include "forked_child.h"
#include "target/live_target.h"
#include "target/proc_files.h"
#include "target/proc_parse.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <atomic>
#include <thread>
#include <vector>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

std::atomic<char> signals_seen{0};

void count_signal(int) {
    ++signals_seen;
}

void count_signals_of_any_kind() {
    struct sigaction action {};
    action.sa_handler = count_signal;
    sigaction(SIGUSR1, &action, nullptr);
}

std::vector<pid_t> threads_of(pid_t pid) {
    return list_numbers_at(AT_FDCWD, fmt::format("/proc/{}/task", pid)).value_or(std::vector<pid_t>());
}

char letter_of(pid_t tid) {
    return parse_state_letter(
        read_file_at(AT_FDCWD, fmt::format("/proc/{}/stat", tid)).value_or(std::string()));
}

// Reads a letter until it is the one; a process that was just let go is on its way to its state.
bool becomes(pid_t tid, std::string_view letters) {
    for (int i = 0; i < 1'000'000; ++i) {
        if (letters.find(letter_of(tid)) != std::string_view::npos) return true;
        ::sched_yield();
    }
    return false;
}

std::unique_ptr<Target> open_target(pid_t pid) {
    auto target = open_live_target(pid);
    REQUIRE(target);
    return std::move(*target);
}

// Threads that live until the process ends.
void start_threads(int count) {
    for (int i = 0; i < count; ++i) {
        std::thread([] {
            while (true) ::pause();
        }).detach();
    }
}

}  // namespace

TEST_CASE("stop: all threads are stopped, then all run again") {
    const ForkedChild child([] { start_threads(7); });
    const auto target = open_target(child.pid());
    {
        const auto stop = target->stop();
        REQUIRE(stop);
        const auto threads = threads_of(child.pid());
        CHECK(threads.size() == 8);
        for (const pid_t tid : threads) CHECK(letter_of(tid) == 't');
        child.send_ping();
    }
    CHECK(child.read_answer() == 'p');
    for (const pid_t tid : threads_of(child.pid())) CHECK(becomes(tid, "SR"));
}

TEST_CASE("stop: threads that are born meanwhile are stopped, too") {
    const ForkedChild child([] {
        std::thread([] {
            while (true) std::thread([] {}).join();
        }).detach();
    });
    const auto target = open_target(child.pid());
    for (int i = 0; i < 50; ++i) {
        const auto stop = target->stop();
        REQUIRE(stop);
        for (const pid_t tid : threads_of(child.pid()))
            CHECK(std::string_view("tZX").find(letter_of(tid)) != std::string_view::npos);
    }
    CHECK(child.ping() == 'p');
}

TEST_CASE("stop: a signal that arrives during a stop is delivered afterwards") {
    const ForkedChild child(count_signals_of_any_kind, [] { return static_cast<char>('0' + signals_seen); });
    const auto target = open_target(child.pid());
    {
        const auto stop = target->stop();
        REQUIRE(stop);
        ::kill(child.pid(), SIGUSR1);
    }
    CHECK(child.ping() == '1');
}

TEST_CASE("stop: a signal that meets the seizure is delivered once") {
    const ForkedChild child(count_signals_of_any_kind,
                            [] { return static_cast<char>('0' + signals_seen.exchange(0)); });
    const auto target = open_target(child.pid());
    for (int i = 0; i < 200; ++i) {
        ::kill(child.pid(), SIGUSR1);
        { const auto stop = target->stop(); }
        REQUIRE(child.ping() == '1');
    }
}

TEST_CASE("stop: a process that was stopped by a signal stays so") {
    const ForkedChild child([] { start_threads(3); });
    const auto target = open_target(child.pid());
    ::kill(child.pid(), SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(child.pid(), &status, WUNTRACED) == child.pid());
    for (int i = 0; i < 20; ++i) {
        {
            const auto stop = target->stop();
            REQUIRE(stop);
            CHECK(letter_of(child.pid()) == 't');
        }
        for (const pid_t tid : threads_of(child.pid())) CHECK(becomes(tid, "T"));
    }
    child.send_ping();
    CHECK(letter_of(child.pid()) == 'T');
    ::kill(child.pid(), SIGCONT);
    CHECK(child.read_answer() == 'p');
}

TEST_CASE("stop: what would stop us waits until the target runs again") {
    static volatile std::sig_atomic_t stops = 0;
    stops = 0;
    const auto before = std::signal(SIGTSTP, [](int) { stops = stops + 1; });
    const ForkedChild child;
    const auto target = open_target(child.pid());
    {
        const auto stop = target->stop();
        REQUIRE(stop);
        ::raise(SIGTSTP);
        CHECK(stops == 0);
    }
    CHECK(stops == 1);
    std::signal(SIGTSTP, before);
}

TEST_CASE("stop: a foreign tracer is named and left alone") {
    const ForkedChild child;
    const ForkedChild tracer([&] { REQUIRE(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0); });
    const auto target = open_target(child.pid());
    const auto stop = target->stop();
    REQUIRE_FALSE(stop);
    CHECK(stop.error().code == ExitCode::kPermission);
    CHECK(stop.error().message.find(fmt::format("(process {})", tracer.pid())) != std::string::npos);
    CHECK_FALSE(stop.error().hint.empty());
    CHECK(child.ping() == 'p');
}

TEST_CASE("stop: a process that ends while it is stopped leaves its status to its parent") {
    for (int round = 0; round < 100; ++round) {
        ForkedChild child([] { start_threads(5); });
        const pid_t pid = child.pid();
        const auto target = open_target(pid);
        {
            const auto stop = target->stop();
            REQUIRE(stop);
            ::kill(pid, SIGKILL);
        }
        int status = 0;
        REQUIRE(::waitpid(pid, &status, 0) == pid);
        child.forget();
        REQUIRE(WIFSIGNALED(status));
        REQUIRE(WTERMSIG(status) == SIGKILL);
        REQUIRE_FALSE(target->stop());
    }
}

TEST_CASE("stop: a process of somebody else that ends while it is stopped is collected for its parent") {
    // The stopper is another process, which goes on: only what it collects reaches the parent, which is us.
    for (int round = 0; round < 50; ++round) {
        ForkedChild child([] { start_threads(3); });
        const ForkedChild stopper([] {},
                                  [&] {
                                      const auto target = open_live_target(child.pid());
                                      if (!target) return 'x';
                                      const auto stop = (*target)->stop();
                                      ::kill(child.pid(), SIGKILL);
                                      return stop ? 's' : 'y';
                                  });
        REQUIRE(stopper.ping() == 's');
        int status = 0;
        REQUIRE(::waitpid(child.pid(), &status, 0) == child.pid());
        child.forget();
        REQUIRE(WTERMSIG(status) == SIGKILL);
    }
}

TEST_CASE("thread stopper: a process that ends while a thread is held is collected for its parent") {
    for (int round = 0; round < 50; ++round) {
        ForkedChild child([] { start_threads(3); });
        for (const pid_t tid : threads_of(child.pid())) {
            if (tid == child.pid() && round % 2 == 0) continue;
            ThreadStopper stopper(traced_process(child.pid()));
            if (!stopper.stop(tid)) continue;
            ::kill(child.pid(), SIGKILL);
            stopper.resume();
            for (int i = 0; i < 1'000'000 && stopper.has_late(); ++i) {
                stopper.release_late();
                ::sched_yield();
            }
            CHECK_FALSE(stopper.has_late());
            break;
        }
        int status = 0;
        REQUIRE(::waitpid(child.pid(), &status, 0) == child.pid());
        child.forget();
    }
}

TEST_CASE("stop: killed at any instant, the stopper leaves the target running") {
    const ForkedChild child([] { start_threads(2); });
    for (int round = 0; round < 200; ++round) {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        const pid_t stopper = ::fork();
        REQUIRE(stopper >= 0);
        if (stopper == 0) {
            auto target = open_live_target(child.pid());
            const char byte = target ? '+' : '-';
            if (::write(ends[1], &byte, 1) != 1 || !target) ::_exit(1);
            while (true) {
                const auto stop = (*target)->stop();
            }
        }
        ::close(ends[1]);
        char byte = 0;
        REQUIRE(::read(ends[0], &byte, 1) == 1);
        ::close(ends[0]);
        REQUIRE(byte == '+');
        // Some instant of its loop, another in each round.
        for (int i = 0; i < round * 7 % 101; ++i) ::sched_yield();
        ::kill(stopper, SIGKILL);
        REQUIRE(::waitpid(stopper, nullptr, 0) == stopper);
        REQUIRE(child.ping() == 'p');
    }
}

TEST_CASE("thread stopper: stops one thread, again and again, and lets it run") {
    const ForkedChild child([] { start_threads(1); });
    ThreadStopper stopper(traced_process(child.pid()));
    for (int i = 0; i < 100; ++i) {
        REQUIRE(stopper.stop(child.pid()));
        CHECK(letter_of(child.pid()) == 't');
        stopper.resume();
        REQUIRE(child.ping() == 'p');
    }
    REQUIRE(stopper.stop(child.pid()));
    for (const pid_t tid : threads_of(child.pid())) {
        if (tid != child.pid()) CHECK(stopper.stop(tid));  // lets the first go
    }
    CHECK(child.ping() == 'p');
    CHECK_FALSE(stopper.has_late());
}

TEST_CASE("thread stopper: what can't be stopped is refused") {
    ForkedChild child;
    ThreadStopper stopper(traced_process(child.pid()));
    child.end();
    CHECK_FALSE(stopper.stop(child.pid()));
    CHECK_FALSE(stopper.has_late());
}

TEST_CASE("thread stopper: a thread that the kernel holds is let go when it comes back") {
    // A parent waits for its vfork child in a sleep that only its death ends (kernel/fork.c).
    int gate[2];
    REQUIRE(::pipe(gate) == 0);
    const ForkedChild child([] {},
                            [&] {
                                const pid_t inner = ::vfork();
                                if (inner == 0) {
                                    ::close(gate[1]);
                                    char byte = 0;
                                    while (::read(gate[0], &byte, 1) < 0) {
                                    }
                                    ::_exit(0);
                                }
                                ::waitpid(inner, nullptr, 0);
                                return 'v';
                            });
    const auto target = open_target(child.pid());
    child.send_ping();
    REQUIRE(becomes(child.pid(), "D"));
    {
        ThreadStopper stopper(traced_process(child.pid()));
        CHECK_FALSE(stopper.stop(child.pid(), std::chrono::milliseconds(1)));
        CHECK(stopper.has_late());
        CHECK_FALSE(stopper.stop(child.pid(), std::chrono::milliseconds(1)));
        stopper.release_late();
        CHECK(stopper.has_late());
        const char byte = 'g';
        REQUIRE(::write(gate[1], &byte, 1) == 1);
        for (int i = 0; i < 1'000'000 && stopper.has_late(); ++i) {
            stopper.release_late();
            ::sched_yield();
        }
        CHECK_FALSE(stopper.has_late());
    }
    CHECK(child.read_answer() == 'v');
    ::close(gate[0]);
    ::close(gate[1]);
}
