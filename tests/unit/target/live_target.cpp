// SPDX-License-Identifier: Apache-2.0
//
// A forked child of the test as a live target: what the kernel tells of it, and what becomes of it.
#include "target/live_target.h"

#include "forked_child.h"
#include "target/launch.h"

#include <fmt/format.h>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <algorithm>
#include <atomic>
#include <climits>
#include <thread>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

std::unique_ptr<Target> open_target(pid_t pid) {
    auto target = open_live_target(pid);
    REQUIRE(target);
    return std::move(*target);
}

std::string link_of(const char* path) {
    char text[PATH_MAX];
    const ssize_t length = ::readlink(path, text, sizeof text);
    REQUIRE(length > 0);
    return {text, static_cast<std::size_t>(length)};
}

Activity activity_when(Target& target, pid_t tid, Activity::Kind kind) {
    Activity activity;
    for (int i = 0; i < 1'000'000; ++i) {
        activity = target.read_activity(tid);
        if (activity.kind == kind) break;
        ::sched_yield();
    }
    return activity;
}

}  // namespace

TEST_CASE("live target: facts, mappings and threads of a child") {
    const ForkedChild child;
    const auto target = open_target(child.pid());
    CHECK(target->pid() == child.pid());
    CHECK_FALSE(target->has_ended());

    const auto facts = target->read_facts();
    REQUIRE(facts);
    CHECK(facts->executable == link_of("/proc/self/exe"));
    CHECK(facts->working_directory == link_of("/proc/self/cwd"));
    CHECK_FALSE(facts->command.empty());

    const auto mappings = target->read_mappings();
    REQUIRE(mappings);
    const Address stack{reinterpret_cast<std::uint64_t>(&child)};
    const auto found = std::find_if(mappings->begin(), mappings->end(),
                                    [&](const Mapping& m) { return is_within(stack, m.start, m.end); });
    REQUIRE(found != mappings->end());
    CHECK(found->writable);

    const auto threads = target->read_threads();
    REQUIRE(threads);
    CHECK(*threads == std::vector<ThreadId>{{child.pid(), child.pid()}});
}

TEST_CASE("live target: a thread that waits on a pipe is blocked in read, and its count stands still") {
    const ForkedChild child([] { ::prctl(PR_SET_NAME, "waiting (1)"); });
    const auto target = open_target(child.pid());
    const Activity activity = activity_when(*target, child.pid(), Activity::Kind::kBlocked);
    CHECK(activity.kind == Activity::Kind::kBlocked);
    CHECK(activity.syscall == SYS_read);
    CHECK(activity.arguments[2] == 1);
    CHECK(target->read_state_letter(child.pid()) == 'S');
    CHECK(target->read_thread_name(child.pid()) == "waiting (1)");

    const auto before = target->read_switch_count(child.pid());
    REQUIRE(before);
    CHECK(target->read_switch_count(child.pid()) == before);
    REQUIRE(child.ping() == 'p');
    activity_when(*target, child.pid(), Activity::Kind::kBlocked);
    CHECK(*target->read_switch_count(child.pid()) > *before);
    target->forget_thread(child.pid());
    CHECK(target->read_state_letter(child.pid()) == 'S');
}

TEST_CASE("live target: a thread that computes is running") {
    const ForkedChild child([] {
        std::thread([] {
            for (std::atomic<unsigned> i{0};;) ++i;
        }).detach();
    });
    const auto target = open_target(child.pid());
    const auto threads = target->read_threads();
    REQUIRE(threads);
    REQUIRE(threads->size() == 2);
    for (const ThreadId& thread : *threads) {
        if (thread.tid != child.pid())
            CHECK(target->read_activity(thread.tid).kind == Activity::Kind::kRunning);
    }
}

TEST_CASE("live target: a process that ends is seen to have ended, before and after it is collected") {
    ForkedChild child;
    const auto target = open_target(child.pid());
    CHECK(target->read_state_letter(child.pid()) != '\0');
    ::kill(child.pid(), SIGKILL);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
    CHECK(target->has_ended());
    CHECK_FALSE(target->read_mappings());
    CHECK(open_live_target(child.pid()).error().code == ExitCode::kNoProcess);
    const pid_t pid = child.pid();
    child.end();
    CHECK(target->has_ended());
    CHECK(target->read_activity(pid).kind == Activity::Kind::kGone);
    CHECK_FALSE(target->read_switch_count(pid));
    CHECK(target->read_state_letter(pid) == '\0');
    CHECK(target->read_thread_name(pid).empty());
    CHECK_FALSE(target->read_threads());
    CHECK(target->read_mappings().error().code == ExitCode::kNoProcess);
    CHECK(open_live_target(pid).error().code == ExitCode::kNoProcess);
}

TEST_CASE("live target: numbers that are no process") {
    for (const pid_t pid : {0, -1, INT_MAX}) {
        INFO(pid);
        const auto target = open_live_target(pid);
        REQUIRE_FALSE(target);
        CHECK(target.error().code == ExitCode::kNoProcess);
        CHECK(target.error().message == fmt::format("no process {}", pid));
    }
}

TEST_CASE("live target: the number of a thread is answered with that of its process") {
    const ForkedChild child([] {
        std::thread([] {
            while (true) ::pause();
        }).detach();
    });
    const auto threads = open_target(child.pid())->read_threads();
    REQUIRE(threads);
    REQUIRE(threads->size() == 2);
    const auto target = open_live_target((*threads)[1].tid);
    REQUIRE_FALSE(target);
    CHECK(target.error().hint == fmt::format("use --pid {}", child.pid()));
}

TEST_CASE("live target: the file behind a mapping is opened, its symbols fit the process") {
    const ForkedChild child;
    const auto target = open_target(child.pid());
    const auto mappings = target->read_mappings();
    REQUIRE(mappings);
    const std::string self = link_of("/proc/self/exe");
    const auto own =
        std::find_if(mappings->begin(), mappings->end(), [&](const Mapping& m) { return m.path == self; });
    REQUIRE(own != mappings->end());
    const auto module = target->open_module(*own);
    REQUIRE(module);
    CHECK((*module)->find_symbol("main"));
    CHECK_FALSE((*module)->find_symbol("no_such_symbol"));
    CHECK(target->open_module(mappings->back()).error().message.find("cannot open") != std::string::npos);
}

TEST_CASE("live target: descendants are found below shells") {
    auto request = LaunchRequest{};
    request.command = {"sh", "-c", "sh -c 'sleep 601; true' & wait"};
    auto launch = Launch::start(request);
    REQUIRE(launch);
    const auto target = open_target(launch->pid());
    std::vector<ProcessFacts> found;
    for (int i = 0; i < 1'000'000; ++i) {
        found = target->read_descendants();
        if (found.size() == 2 && !found[1].command.empty() && found[1].command[0] == "sleep") break;
        ::sched_yield();
    }
    REQUIRE(found.size() == 2);
    CHECK(found[0].command == std::vector<std::string>{"sh", "-c", "sleep 601; true"});
    CHECK(found[1].command == std::vector<std::string>{"sleep", "601"});
    for (const auto& process : found) ::kill(process.pid, SIGKILL);
    launch->send(SIGKILL);
    launch->wait();
}

TEST_CASE("live target: another user's process is refused with both names and a remedy") {
    if (::getuid() != 0) {
        WARN("skipped: only root can become another user");
        return;
    }
    const ForkedChild child;
    const ForkedChild reader([] { REQUIRE(::setresuid(65534, 65534, 65534) == 0); },
                             [&] {
                                 const auto target = open_live_target(child.pid());
                                 if (target || target.error().code != ExitCode::kPermission) return 'x';
                                 const bool names =
                                     target.error().message.find("belongs to root") != std::string::npos;
                                 return names && !target.error().hint.empty() ? 'd' : 'y';
                             });
    CHECK(reader.ping() == 'd');
}

TEST_CASE("live target: a process of the same user that may not be dumped is refused") {
    if (::getuid() != 0) {
        WARN("skipped: only root can become another user");
        return;
    }
    const ForkedChild child([] {
        REQUIRE(::setresuid(65534, 65534, 65534) == 0);
        ::prctl(PR_SET_DUMPABLE, 0);
    });
    const ForkedChild reader(
        [] {
            REQUIRE(::setresuid(65534, 65534, 65534) == 0);
            ::prctl(PR_SET_DUMPABLE, 1);
        },
        [&] {
            const auto target = open_live_target(child.pid());
            if (target || target.error().code != ExitCode::kPermission) return 'x';
            return target.error().message.find("protected") != std::string::npos ? 'd' : 'y';
        });
    CHECK(reader.ping() == 'd');
}

TEST_CASE("live target: a thread of another pid namespace has two numbers") {
    if (::getuid() != 0) {
        WARN("skipped: only root can make a pid namespace");
        return;
    }
    // The next children of whoever unshares are in the new namespace, so that is a process of its own.
    const ForkedChild outer([] {},
                            [] {
                                if (::unshare(CLONE_NEWPID) != 0) return 'u';
                                const ForkedChild inner([] {
                                    std::thread([] {
                                        while (true) ::pause();
                                    }).detach();
                                });
                                const auto target = open_live_target(inner.pid());
                                if (!target) return 'o';
                                const auto threads = (*target)->read_threads();
                                if (!threads || threads->size() != 2) return 't';
                                const bool leader = (*threads)[0] == ThreadId{inner.pid(), 1};
                                const bool other =
                                    (*threads)[1].namespace_tid == 2 && (*threads)[1].tid > inner.pid();
                                return leader && other ? 'n' : 'x';
                            });
    CHECK(outer.ping() == 'n');
}
