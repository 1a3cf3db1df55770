// SPDX-License-Identifier: Apache-2.0
//
// What a recording is of: a process that was given or a program that we start, and the interpreter in it as it
// comes, goes (exec) and comes again. It never ends the program.
#pragma once

#include "cli/commands.h"
#include "python/python_children.h"
#include "python/python_process.h"
#include "target/launch.h"

#include <pyprof/target.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace pyprof {

// An interpreter that is just starting is waited for so long.
constexpr std::chrono::seconds kStartPatience{2};

struct Attached {
    std::unique_ptr<Target> target;
    PythonProcess process;
};

class Subject {
public:
    explicit Subject(pid_t pid) : pid_(pid) {}
    // Under sudo the program runs as the user who called it. In the background it has nothing on stdin and a
    // process group of its own.
    static Result<Subject> launch(const std::vector<std::string>& command, const sigset_t& signal_mask, bool in_background = false);

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] Launch* launched() { return launch_ ? &*launch_ : nullptr; }
    // What was seen of Python below a launched program while it was none itself: "process 7 below it was one (...)" and
    // how to profile that; empty: nothing.
    [[nodiscard]] std::string hint_of_child() const;
    // Since the program was started by us.
    [[nodiscard]] std::chrono::nanoseconds age() const;

    struct Waiting {
        std::function<bool()> must_end;               // asked again and again
        std::function<void(const Error&)> tell;       // why it takes so long
    };
    // The interpreter of a given process, or the first one in a launched program. Nothing: it ended before there was one,
    // or we are to end.
    Result<std::optional<Attached>> attach(const Waiting& waiting);
    // After what we were attached to is gone: the process has ended, or executed another program. Nothing
    // then when it has ended or does not become Python again.
    Result<std::optional<Attached>> attach_again(const Waiting& waiting);

private:
    Subject(pid_t pid, Launch launch);
    Result<std::optional<Attached>> wait_for_python(const Waiting& waiting);
    Result<std::optional<Attached>> look_for_another(const Waiting& waiting);

    pid_t pid_ = 0;
    std::chrono::nanoseconds started_{0};
    std::optional<Launch> launch_;
    std::optional<ProcessFacts> python_child_;
};

// Why a recording of that process, which has ended, holds nothing. `consequence` stands behind it.
Error no_samples(pid_t pid, WhichThreads which, std::string_view consequence = {});

// How many processes below a process are Python and not profiled. Looks at most once a second, and less often
// where a look takes long.
class ChildCounter {
public:
    void look(pid_t parent, std::chrono::nanoseconds now);
    [[nodiscard]] std::size_t count() const { return seen_.size(); }

private:
    PythonChildren children_;
    std::set<pid_t> seen_;
    std::chrono::nanoseconds next_{0};
};

}  // namespace pyprof
