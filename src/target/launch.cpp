// SPDX-License-Identifier: Apache-2.0
//
// fork and exec. We may have threads, so between the two the child calls only what signal-safety(7)
// allows; all that needs memory is made ready before. A failed step comes back through a pipe that a
// successful exec closes.
#include "target/launch.h"

#include "base/clock.h"
#include "base/open_files.h"
#include "target/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace pyprof {
namespace {

enum class Step : int { kIdentity, kExec };

struct Failure {
    Step step = Step::kExec;
    int error = 0;
};

struct Prepared {
    std::vector<std::string> variables;
    std::vector<char*> argv;
    std::vector<char*> envp;
};

Prepared prepare(const LaunchRequest& request) {
    Prepared prepared;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text(*variable);
        const std::string_view name = text.substr(0, text.find('='));
        const bool is_replaced = std::any_of(request.environment.begin(), request.environment.end(),
                                             [&](const auto& entry) { return entry.first == name; });
        if (!is_replaced) prepared.variables.emplace_back(text);
    }
    for (const auto& [name, value] : request.environment) prepared.variables.push_back(name + "=" + value);
    // exec takes pointers to char but changes nothing behind them.
    for (const auto& argument : request.command) prepared.argv.push_back(const_cast<char*>(argument.c_str()));
    for (auto& variable : prepared.variables) prepared.envp.push_back(variable.data());
    prepared.argv.push_back(nullptr);
    prepared.envp.push_back(nullptr);
    return prepared;
}

bool become(const RunAs& who) {
    return ::setgroups(who.groups.size(), who.groups.data()) == 0 &&
           ::setresgid(who.gid, who.gid, who.gid) == 0 && ::setresuid(who.uid, who.uid, who.uid) == 0;
}

// In the child, between fork and exec.
[[noreturn]] void run_child(const LaunchRequest& request, const Prepared& prepared, int report) {
    Failure failure{Step::kIdentity, 0};
    if (request.run_as && !become(*request.run_as)) {
        failure.error = errno;
    } else {
        for (const int signal : request.default_signals) ::signal(signal, SIG_DFL);
        if (request.in_background) {
            ::setpgid(0, 0);
            const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
        }
        ::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);
        restore_open_file_limit();
        ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
        failure = {Step::kExec, errno};
    }
    // Smaller than PIPE_BUF: whole or not at all.
    while (::write(report, &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    ::_exit(127);
}

// As execvp(3) looks for it.
UniqueFd open_program(const std::string& program) {
    if (program.find('/') != std::string::npos) return open_regular(program);
    const char* path = std::getenv("PATH");
    for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
        const std::string_view directory = rest.substr(0, rest.find(':'));
        rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
        if (UniqueFd file = open_regular(fmt::format("{}/{}", directory.empty() ? "." : directory, program))) return file;
    }
    return UniqueFd();
}

// What a program that is there itself needs to start and does not find. A script names it in its first line (execve(2)).
std::optional<std::string> missing_interpreter_of(const std::string& program) {
    constexpr std::size_t kFirstLine = 256;  // BINPRM_BUF_SIZE
    const UniqueFd file = open_program(program);
    if (!file) return {};
    char buffer[kFirstLine];
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    std::string_view line(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (!line.starts_with("#!")) return "its dynamic loader";
    line = line.substr(2, line.find('\n') - 2);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return fmt::format("its interpreter '{}'", line.substr(0, line.find_first_of(" \t")));
}

Error explain(const Failure& failure, const std::string& program) {
    const char* reason = std::strerror(failure.error);
    if (failure.step == Step::kIdentity) {
        return {ExitCode::kOwnFailure,
                fmt::format("cannot run '{}' as the invoking user: {}", program, reason), ""};
    }
    if (const auto missing = failure.error == ENOENT ? missing_interpreter_of(program) : std::nullopt) {
        return {ExitCode::kNotFound, fmt::format("cannot run '{}': {} is not found", program, *missing),
                "give an interpreter, for example: pyprof record -- python3 " + program};
    }
    if (failure.error == ENOENT) {
        return {ExitCode::kNotFound, fmt::format("cannot run '{}': not found", program),
                "give the program with its path, or look at PATH; the command stands after --"};
    }
    return {ExitCode::kNotExecutable, fmt::format("cannot run '{}': {}", program, reason),
            failure.error == EACCES ? "give a program, for example: pyprof record -- python3 app.py" : ""};
}

int wait_for_id(idtype_t type, int id, siginfo_t& info, int options) {
    int result = 0;
    do {
        info = {};
        result = ::waitid(type, static_cast<id_t>(id), &info, options);
    } while (result != 0 && errno == EINTR);
    return result;
}

}  // namespace

Result<Launch> Launch::start(const LaunchRequest& request) {
    check(!request.command.empty(), "a launch needs a command");
    const Prepared prepared = prepare(request);
    // Where it was ignored when we started, the kernel would throw the exit status away (waitid(2)).
    ::signal(SIGCHLD, SIG_DFL);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return fail(ExitCode::kOwnFailure, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    }
    UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return fail(ExitCode::kOwnFailure, fmt::format("cannot fork: {}", std::strerror(errno)));
    if (pid == 0) run_child(request, prepared, writing.get());
    writing.reset();

    Failure failure;
    ssize_t got = 0;
    do {
        got = ::read(reading.get(), &failure, sizeof failure);
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof failure)) {
        siginfo_t info{};
        wait_for_id(P_PID, pid, info, WEXITED);
        return tl::unexpected<Error>(explain(failure, request.command[0]));
    }
    return Launch(pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

Launch::Launch(Launch&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)), status_(other.status_) {}

Launch::~Launch() {
    if (pid_ > 0 && !status_) wait(std::chrono::nanoseconds(0));
}

// Looks without taking: a stop under ptrace would be taken as well, though it belongs to the sampler.
bool Launch::has_ended(int timeout_ms) {
    if (pidfd_) {
        pollfd poll{pidfd_.get(), POLLIN, 0};
        return ::poll(&poll, 1, timeout_ms) > 0;
    }
    siginfo_t info{};
    const int result = wait_for_id(P_PID, pid_, info, WEXITED | WNOHANG | WNOWAIT);
    const bool is_end =
        info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    if (result == 0 && is_end) return true;
    if (timeout_ms > 0) ::poll(nullptr, 0, std::min(timeout_ms, 10));
    return false;
}

std::optional<int> Launch::wait(std::chrono::nanoseconds patience) {
    const auto deadline = monotonic_now() + patience;
    while (!status_) {
        const auto left = std::max(deadline - monotonic_now(), std::chrono::nanoseconds(0));
        const auto left_ms = std::min<std::int64_t>((left.count() + 999'999) / 1'000'000, 60'000);
        if (has_ended(static_cast<int>(left_ms))) {
            siginfo_t info{};
            wait_for_id(P_PID, pid_, info, WEXITED);
            status_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        } else if (left.count() == 0) {
            return {};
        }
    }
    return status_;
}

int Launch::wait() {
    while (!status_) wait(std::chrono::hours(1));
    return *status_;
}

void Launch::send(int signal) {
    if (pid_ > 0 && !status_) ::kill(pid_, signal);
}

}  // namespace pyprof
