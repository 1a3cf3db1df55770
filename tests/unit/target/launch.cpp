// SPDX-License-Identifier: Apache-2.0
//
// Starting programs: their status, their surroundings, and what goes wrong.
#include "base/open_files.h"
#include "target/launch.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace pyprof;

namespace {

LaunchRequest shell(const std::string& script) {
    LaunchRequest request;
    request.command = {"sh", "-c", script};
    return request;
}

int status_of(const LaunchRequest& request) {
    auto launch = Launch::start(request);
    REQUIRE(launch);
    return launch->wait();
}

}  // namespace

TEST_CASE("launch: the exit status comes back") {
    CHECK(status_of(shell("exit 0")) == 0);
    CHECK(status_of(shell("exit 7")) == 7);
    CHECK(status_of(shell("kill -TERM $$")) == 128 + SIGTERM);
    CHECK(status_of(shell("kill -KILL $$")) == 128 + SIGKILL);
}

TEST_CASE("launch: what can't be run is told apart") {
    LaunchRequest request;
    request.command = {"no-such-program-anywhere", "x"};
    auto launch = Launch::start(request);
    REQUIRE_FALSE(launch);
    CHECK(launch.error().code == ExitCode::kNotFound);
    CHECK(launch.error().message.find("no-such-program-anywhere") != std::string::npos);

    request.command = {"/etc/passwd"};
    CHECK(Launch::start(request).error().code == ExitCode::kNotExecutable);
    request.command = {"/"};
    CHECK(Launch::start(request).error().code == ExitCode::kNotExecutable);
    request.command = {"/etc/passwd/x"};
    CHECK_FALSE(Launch::start(request));
}

TEST_CASE("launch: a script whose interpreter is missing names that one") {
    std::string directory = (std::filesystem::temp_directory_path() / "pyprof-launch-XXXXXX").string();
    REQUIRE(::mkdtemp(directory.data()) != nullptr);
    const std::string script = directory + "/script";
    const auto message_of = [&](const std::string& text, const std::string& name) {
        std::ofstream(script) << text;
        std::filesystem::permissions(script, std::filesystem::perms::owner_all);
        LaunchRequest request;
        request.command = {name};
        const auto launch = Launch::start(request);
        REQUIRE_FALSE(launch);
        CHECK(launch.error().code == ExitCode::kNotFound);
        return launch.error().message;
    };
    CHECK(message_of("#!/no/such/python -u\nprint()\n", script) == "cannot run '" + script + "': its interpreter '/no/such/python' is not found");
    CHECK(message_of("#! /no/such\r\n", script).find("'/no/such\r' is not found") != std::string::npos);
    const std::string path = std::getenv("PATH");
    ::setenv("PATH", ("/nowhere:" + directory).c_str(), 1);
    CHECK(message_of("#!/no/such", "script") == "cannot run 'script': its interpreter '/no/such' is not found");
    ::setenv("PATH", path.c_str(), 1);
    std::filesystem::remove_all(directory);
}

TEST_CASE("launch: the environment is ours with what was set on top") {
    ::setenv("PYPROF_TEST_KEPT", "kept", 1);
    ::setenv("PYPROF_TEST_SET", "old", 1);
    auto request =
        shell("[ \"$PYPROF_TEST_KEPT\" = kept ] && [ \"$PYPROF_TEST_SET\" = 'new value' ] && exit 3");
    request.environment = {{"PYPROF_TEST_SET", "new value"}};
    CHECK(status_of(request) == 3);
}

TEST_CASE("launch: stdin is the program's") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], "5\n", 2) == 2);
    const int saved = ::dup(STDIN_FILENO);
    ::dup2(ends[0], STDIN_FILENO);
    const int status = status_of(shell("read n; exit $n"));
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(status == 5);
}

TEST_CASE("launch: a program in the background has nothing on stdin and a process group of its own") {
    auto request = shell("read n && exit 9; set -- $(cat /proc/self/stat); [ \"$5\" = $$ ] && exit 3");
    request.in_background = true;
    CHECK(status_of(request) == 3);
    request.in_background = false;
    request.command.back() = "set -- $(cat /proc/self/stat); [ \"$5\" = $$ ] && exit 3; exit 4";
    CHECK(status_of(request) == 4);
}

TEST_CASE("launch: signals that we block or ignore do not reach into the program") {
    sigset_t block;
    sigset_t before;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &before);
    const auto old = ::signal(SIGPIPE, SIG_IGN);

    CHECK(status_of(shell("kill -TERM $$; exit 1")) == 128 + SIGTERM);
    auto request = shell("kill -PIPE $$; exit 1");
    request.default_signals = {SIGPIPE};
    CHECK(status_of(request) == 128 + SIGPIPE);
    request.default_signals.clear();
    CHECK(status_of(request) == 1);  // as under nohup: what was ignored stays so

    ::signal(SIGPIPE, old);
    sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("launch: waiting takes the status of no other child") {
    const pid_t other = ::fork();
    REQUIRE(other >= 0);
    if (other == 0) ::_exit(3);
    CHECK(status_of(shell("exit 4")) == 4);
    int status = 0;
    REQUIRE(::waitpid(other, &status, 0) == other);
    CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("launch: a program that runs has no status yet, and a signal reaches it") {
    auto launch = Launch::start(shell("exec sleep 600"));
    REQUIRE(launch);
    CHECK_FALSE(launch->wait(std::chrono::nanoseconds(0)));
    CHECK_FALSE(launch->wait(std::chrono::milliseconds(1)));
    launch->send(SIGINT);
    CHECK(launch->wait() == 128 + SIGINT);
    CHECK(launch->wait(std::chrono::nanoseconds(0)) == 128 + SIGINT);
    launch->send(SIGKILL);  // to nobody
}

TEST_CASE("launch: the program lives on when the launch goes out of sight") {
    pid_t pid = 0;
    {
        auto launch = Launch::start(shell("exec sleep 600"));
        REQUIRE(launch);
        pid = launch->pid();
    }
    CHECK(::kill(pid, 0) == 0);
    ::kill(pid, SIGKILL);
    int status = 0;
    CHECK(::waitpid(pid, &status, 0) == pid);
}

TEST_CASE("launch: the program may have as many files open as we might when we started") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit low = before;
    low.rlim_cur = 200;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    raise_open_file_limit();
    rlimit now{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
    CHECK(now.rlim_cur == before.rlim_max);
    CHECK(status_of(shell("exit $(ulimit -n)")) == 200);
}

TEST_CASE("launch: no descriptor of ours is passed on") {
    // Those that are inheritable anyway are not the launch's doing.
    std::string inheritable = " ";
    for (int fd = 0; fd < 1024; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) inheritable += std::to_string(fd) + " ";
    }
    auto request = shell(
        "for f in /proc/self/fd/*; do n=${f##*/}; [ -e $f ] || continue; case \"$KNOWN\" in *\" $n \"*) ;; "
        "*) exit 9;; esac; done");
    request.environment = {{"KNOWN", inheritable}};
    CHECK(status_of(request) == 0);
}

TEST_CASE("launch: under root it runs as whom it was asked to") {
    if (::getuid() != 0) {
        WARN("skipped: only root can become another user");
        return;
    }
    auto request = shell(
        "[ \"$(id -u):$(id -g):$(id -G)\" = '65534:65533:65533 65532' ] && [ \"$HOME\" = /nowhere ] && exit "
        "6");
    request.run_as = RunAs{65534, 65533, {65532}};
    request.environment = {{"HOME", "/nowhere"}};
    CHECK(status_of(request) == 6);
}
