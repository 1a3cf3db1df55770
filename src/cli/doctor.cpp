// SPDX-License-Identifier: Apache-2.0
//
// `pyprof doctor`: what we may do here, and, for a process, what was found in it and which checks held. It reads
// like `dump --nonblocking`: nothing is stopped, nothing is changed. Problems are told in the very words that
// record and dump fail with.
#include "base/text.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/messages.h"
#include "output/json_writer.h"
#include "profile/utf8.h"
#include "sample/dump.h"
#include "target/live_target.h"
#include "target/permission_facts.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pyprof {

namespace {

constexpr int kSchema = 1;
constexpr int kMostLooks = 20;  // at a program that is not stopped: no stack of it may hold still at one look

struct Count {
    std::size_t good = 0;
    std::size_t all = 0;
};

struct Diagnosis {
    AccessFacts access;
    bool has_target = false;  // of a process that was asked for
    std::optional<ProcessFacts> process;
    std::optional<PythonProcess> python;
    std::size_t interpreters = 0;
    std::size_t threads = 0;
    std::uint32_t broken_lists = 0;
    Count stacks;    // walked to their root
    Count thread_ids;  // that lead to a thread of the kernel
    Count names;
    Count lines;
    std::size_t python_children = 0;
    std::vector<Error> problems;  // the first decides about the exit code
};

bool is_whole(const DumpThread& thread) {
    return std::none_of(thread.frames.begin(), thread.frames.end(), [](const DumpFrame& frame) {
        return frame.kind == FrameKind::kMarker && frame.name != "[gc]";
    });
}

void count_checks(const Dump& dump, Diagnosis& found) {
    found.threads = dump.threads.size();
    found.broken_lists = dump.broken_lists;
    for (const DumpThread& thread : dump.threads) {
        ++found.thread_ids.all;
        if (thread.native_id != 0) ++found.thread_ids.good;
        if (thread.frames.empty()) continue;
        ++found.stacks.all;
        if (is_whole(thread)) ++found.stacks.good;
        for (const DumpFrame& frame : thread.frames) {
            if (frame.kind != FrameKind::kPython) continue;
            ++found.names.all;
            ++found.lines.all;
            if (!frame.name.empty() && !frame.file.empty()) ++found.names.good;
            if (frame.line > 0) ++found.lines.good;
        }
    }
}

void add_failed_checks(Diagnosis& found) {
    const auto add = [&](std::string message, std::string hint) {
        found.problems.push_back({ExitCode::kFailure, std::move(message), std::move(hint)});
    };
    if (found.broken_lists > 0) {
        add(fmt::format("{} lists of threads could not be read to their end", found.broken_lists),
            "threads may have come and gone meanwhile: try again");
    }
    if (found.threads == 0) add("no thread of Python was found", "the interpreter may be starting or ending: try again");
    if (found.stacks.all > 0 && found.stacks.good == 0) {
        add("no stack could be walked to its root",
            "this may be a changed build of Python: attach the file of `pyprof dump --snapshot FILE` to a report");
    }
    if (found.names.all > 0 && found.names.good == 0) {
        add("no name of a function could be read",
            "this may be a changed build of Python: attach the file of `pyprof dump --snapshot FILE` to a report");
    }
}

void look_into(pid_t pid, Diagnosis& found) {
    auto target = open_live_target(pid);
    if (!target) {
        found.problems.insert(found.problems.begin(), target.error());
        return;
    }
    if (auto facts = (*target)->read_facts()) found.process = std::move(*facts);
    auto python = PythonProcess::attach(**target, {true, kStartPatience});
    if (!python) {
        found.problems.push_back(python.error());
        return;
    }
    found.python.emplace(std::move(*python));
    found.interpreters = found.python->read_threads(**target).interpreters.size();
    auto dump = take_dump(**target, *found.python, {true, true});
    for (int look = 1; dump && look < kMostLooks && std::none_of(dump->threads.begin(), dump->threads.end(), is_whole); ++look) {
        dump = take_dump(**target, *found.python, {true, true});
    }
    if (!dump) {
        found.problems.push_back(dump.error());
        return;
    }
    count_checks(*dump, found);
    add_failed_checks(found);
    ChildCounter children;
    children.look(pid, std::chrono::nanoseconds{0});
    found.python_children = children.count();
}

// Without a process to look at, the one that started us stands for all of the same user. It may be another user's, or
// outside of our container: then we do ourselves.
pid_t one_of_ours() {
    struct stat parent {};
    const pid_t pid = ::getppid();
    const bool is_ours = pid > 0 && ::stat(fmt::format("/proc/{}", pid).c_str(), &parent) == 0 && parent.st_uid == ::geteuid();
    return is_ours ? pid : ::getpid();
}

Diagnosis diagnose(std::optional<pid_t> pid) {
    Diagnosis found;
    found.has_target = pid.has_value();
    found.access = gather_access_facts(pid.value_or(one_of_ours()), AccessSources::real());
    std::set<std::string> told;
    for (const Access access : {Access::kRead, Access::kStop}) {
        for (Error& obstacle : list_obstacles(found.access, access)) {
            if (told.insert(obstacle.message).second) found.problems.push_back(std::move(obstacle));
        }
    }
    if (pid && found.access.exists) look_into(*pid, found);
    // The failure itself is often one of the obstacles.
    told.clear();
    std::vector<Error> distinct;
    for (Error& problem : found.problems) {
        if (told.insert(problem.message).second) distinct.push_back(std::move(problem));
    }
    found.problems = std::move(distinct);
    return found;
}

const char* name_of(Container container) {
    switch (container) {
        case Container::kDocker:
            return "docker";
        case Container::kPodman:
            return "podman";
        case Container::kKubernetes:
            return "kubernetes";
        case Container::kOther:
            return "other";
        case Container::kNone:
            break;
    }
    return "none";
}

const char* meaning_of(const std::optional<int>& scope) {
    if (!scope) return "this kernel has no Yama: processes of the same user can be read";
    switch (*scope) {
        case 0:
            return "0: processes of the same user can be read";
        case 1:
            return "1: only programs that pyprof itself starts, without CAP_SYS_PTRACE";
        case 2:
            return "2: only with CAP_SYS_PTRACE";
        default:
            return "3: nobody, until the next reboot";
    }
}

std::string kernel_name() {
    utsname name{};
    return ::uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine) : "unknown";
}

std::string layout_text(const PythonProcess& python) {
    return python.layout().from_debug_offsets ? "its own debug offsets" : "pyprof's table";
}

void add_line(std::string& out, const char* what, const std::string& text) {
    fmt::format_to(std::back_inserter(out), "  {:<14} {}\n", what, escape_control(text));
}

void add_count(std::string& out, const char* what, const Count& count, const char* text) {
    add_line(out, what, fmt::format("{} of {} {}", count.good, count.all, text));
}

std::string text_of(const Diagnosis& found) {
    std::string out = fmt::format("pyprof {} on {}\n", PYPROF_VERSION, kernel_name());
    const AccessFacts& access = found.access;
    add_line(out, "user", access.own_user);
    add_line(out, "CAP_SYS_PTRACE", access.has_ptrace_capability ? "yes" : "no");
    add_line(out, "ptrace_scope", meaning_of(access.yama_scope));
    add_line(out, "seccomp", access.seccomp_mode == 2 ? "a filter holds us" : "no filter");
    add_line(out, "container", name_of(access.container));
    if (found.has_target) {
        fmt::format_to(std::back_inserter(out), "\nProcess {}\n", access.pid);
        if (found.process) add_line(out, "command", joined(found.process->command));
        if (access.exists) add_line(out, "user", access.target_user);
        if (access.tracer != 0) add_line(out, "traced by", fmt::format("{} ({})", access.tracer, access.tracer_name));
    }
    if (found.python) {
        const FoundRuntime& runtime = found.python->found();
        add_line(out, "Python", fmt::format("{}, told by {}", found.python->version_text(), runtime.version_how));
        add_line(out, "found", fmt::format("by {} in {}", runtime.how, runtime.module_path));
        add_line(out, "layout", layout_text(*found.python));
        add_line(out, "threads", fmt::format("{} in {} interpreter{}", found.threads, found.interpreters, found.interpreters == 1 ? "" : "s"));
        add_count(out, "thread ids", found.thread_ids, "lead to a thread of the kernel");
        add_count(out, "stacks", found.stacks, "walked to their root");
        add_count(out, "names", found.names, "frames have a function and a file");
        add_count(out, "lines", found.lines, "frames have a line");
        if (found.python_children > 0) add_line(out, "children", fmt::format("{} of Python below it", found.python_children));
    }
    out += "\n";
    if (found.problems.empty()) {
        out += found.python       ? "Nothing is in the way.\n"
               : found.has_target ? "Nothing is known to be in the way.\n"
                                  : "Nothing is known to be in the way of processes of this user.\n";
    }
    for (const Error& problem : found.problems) {
        fmt::format_to(std::back_inserter(out), "problem: {}\n", escape_control(problem.message));
        if (!problem.hint.empty()) fmt::format_to(std::back_inserter(out), "  remedy: {}\n", escape_control(problem.hint));
    }
    return out;
}

class Json {
public:
    Json() { writer_.SetIndent(' ', 2); }
    void begin(const char* key = nullptr) {
        name(key);
        writer_.StartObject();
    }
    void end() { writer_.EndObject(); }
    void begin_list(const char* key) {
        name(key);
        writer_.StartArray();
    }
    void end_list() { writer_.EndArray(); }
    void add(const char* key, std::string_view value) {
        name(key);
        const std::string valid = to_valid_utf8(value);
        put_text(writer_, valid);
    }
    void add(const char* key, std::uint64_t value) {
        name(key);
        writer_.Uint64(value);
    }
    void add_bool(const char* key, bool value) {
        name(key);
        writer_.Bool(value);
    }
    void add_null(const char* key) {
        name(key);
        writer_.Null();
    }
    void add(const char* key, const Count& count) {
        begin(key);
        add("good", std::uint64_t{count.good});
        add("all", std::uint64_t{count.all});
        end();
    }
    [[nodiscard]] std::string text() const { return text_.line(); }

private:
    void name(const char* key) {
        if (key != nullptr) writer_.Key(key);
    }
    JsonText text_;
    PrettyJsonWriter writer_{text_.stream()};
};

void add_process(const Diagnosis& found, Json& json) {
    json.begin("process");
    json.add("pid", static_cast<std::uint64_t>(found.access.pid));
    json.add_bool("exists", found.access.exists);
    json.begin_list("command");
    if (found.process) {
        for (const std::string& word : found.process->command) json.add(nullptr, word);
    }
    json.end_list();
    if (!found.python) {
        json.add_null("python");
        json.end();
        return;
    }
    const FoundRuntime& runtime = found.python->found();
    json.add("python", found.python->version_text());
    json.add("version_how", runtime.version_how);
    json.add("found_how", runtime.how);
    json.add("found_in", runtime.module_path);
    json.add("layout", layout_text(*found.python));
    json.add("interpreters", std::uint64_t{found.interpreters});
    json.add("threads", std::uint64_t{found.threads});
    json.add("broken_lists", std::uint64_t{found.broken_lists});
    json.add("thread_ids", found.thread_ids);
    json.add("stacks", found.stacks);
    json.add("names", found.names);
    json.add("lines", found.lines);
    json.add("python_children", std::uint64_t{found.python_children});
    json.end();
}

std::string json_of(const Diagnosis& found) {
    Json json;
    const AccessFacts& access = found.access;
    json.begin();
    json.add("schema", std::uint64_t{kSchema});
    json.add("pyprof", PYPROF_VERSION);
    json.add("kernel", kernel_name());
    json.add("user", access.own_user);
    json.add_bool("has_ptrace_capability", access.has_ptrace_capability);
    if (access.yama_scope) {
        json.add("ptrace_scope", static_cast<std::uint64_t>(*access.yama_scope));
    } else {
        json.add_null("ptrace_scope");
    }
    json.add("seccomp", static_cast<std::uint64_t>(access.seccomp_mode));
    json.add("container", name_of(access.container));
    if (found.has_target) {
        add_process(found, json);
    } else {
        json.add_null("process");
    }
    json.begin_list("problems");
    for (const Error& problem : found.problems) {
        json.begin();
        json.add("message", problem.message);
        json.add("remedy", problem.hint);
        json.add("exit_code", static_cast<std::uint64_t>(problem.code));
        json.end();
    }
    json.end_list();
    json.end();
    return json.text();
}

}  // namespace

Result<int> run_doctor(const DoctorSettings& settings) {
    const Diagnosis found = diagnose(settings.pid);
    const auto printed = print_out(settings.json ? json_of(found) : text_of(found));
    if (!printed) return tl::unexpected(printed.error());
    return found.problems.empty() ? 0 : static_cast<int>(found.problems.front().code);
}

}  // namespace pyprof
