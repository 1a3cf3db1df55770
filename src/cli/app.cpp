// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include "base/open_files.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/messages.h"
#include "cli/program_of.h"
#include "cli/shared_options.h"
#include "cli/top_options.h"
#include "cli/watch_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pyprof/exporter.h>

#include <csignal>
#include <cstdio>

namespace pyprof {

namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 no such process; 4 not permitted; 5 not Python;\n"
    "6 no samples. With a launched program: its own status (128+N for signal N), or 125 when pyprof\n"
    "itself failed, 126 when the program can't be executed, 127 when it is not found.";

int usage_error(const std::string& message, const std::string& hint) {
    print_error({ExitCode::kUsage, message, hint});
    return static_cast<int>(ExitCode::kUsage);
}

// Frames that --track-creation notes: a coroutine costs up to 0.4 us more with four.
constexpr int kCreationDepth = 8;
constexpr int kMostCreationDepth = 100;

std::string format_help() {
    std::string text = "Format:";
    for (const Format& format : formats()) text += fmt::format(" {}", format.name);
    return text + " (default: from the output's ending, else flamegraph)";
}

struct Options {
    RecordSettings record;
    TopSettings top;
    TopFlags top_flags;
    DumpSettings dump;
    DoctorSettings doctor;
    WatchSettings watch;
    WatchFlags watch_flags;
    std::string rate = "100";
    std::string duration;
    std::string dump_async = "on";
    long record_pid = 0;
    long dump_pid = 0;
    long doctor_pid = 0;
    std::string async = "running";
    std::string async_weight = "task";
    std::string track_creation;
    bool no_inferred = false;
    bool idle = false;
    bool gil = false;
};

CLI::App* add_record(CLI::App& app, Options& options) {
    CLI::App* record = app.add_subcommand("record", "Profile a Python program and write what was seen");
    record->prefix_command();
    record->add_option("-p,--pid", options.record_pid, "Process to profile")->group("Target");
    record->add_option("-r,--rate", options.rate, "Samples a second: 100, 2.5, 10k, max (above 20k the program is disturbed)")->group("Sampling")->capture_default_str();
    record->add_option("-d,--duration", options.duration, "Wall time: 30, 30s, 2m (default: until Ctrl-C or the end)")->group("Sampling");
    record->add_flag("--nonblocking", options.record.nonblocking, "Never stop a thread, not even for 50 us to prove a stack")->group("Sampling");
    record->add_flag("--idle", options.idle, "Sleepers, GIL waiters and disk waits, too")->group("What to show");
    record->add_flag("--gil", options.gil, "Only the thread that holds the GIL")->group("What to show");
    record->add_flag("--native", options.record.native, "C, C++ and Rust frames, too, by a short stop a sample")->group("What to show");
    record->add_flag("--native-all", options.record.native_all, "... the interpreter's own machinery included")->group("What to show");
    record->add_flag("--debuginfod", options.record.debuginfod, "Native names from the servers of DEBUGINFOD_URLS, too")->group("What to show");
    record->add_flag("-t,--threads", options.record.per_thread, "A root frame per thread")->group("What to show");
    record->add_flag("-F,--function", options.record.functions_only, "No line numbers")->group("What to show");
    record->add_flag("--full-filenames", options.record.full_filenames, "Do not shorten file names")->group("What to show");
    record->add_flag("--inverted", options.record.inverted, "Flame graph with the leaves at the root")->group("What to show");
    record->add_option("--async", options.async, "Asyncio, where a loop is found: running (what runs, below the tasks that wait for it), all (waiting tasks, too) or off")->group("Asyncio")->capture_default_str();
    record->add_option("--async-weight", options.async_weight, "What a waiting task counts: task (its own time) or share (a part of its loop's)")->group("Asyncio")->capture_default_str();
    record->add_flag("--no-inferred", options.no_inferred, "No task under another by likelihood alone")->group("Asyncio");
    record->add_flag("--full-loop-frames", options.record.async.full_loop_frames, "Keep the event loop's own frames above tasks")->group("Asyncio");
    record->add_option("--track-creation", options.track_creation, "Have the interpreter note where coroutines are made, so many frames: writes 4 bytes to the process, and puts them back")->group("Asyncio")->expected(0, 1)->default_str("8");
    record->add_option("-o,--output", options.record.output, "File to write, - for stdout (default: pyprof-NAME-PID-TIME.svg)")->group("Output");
    record->add_option("-f,--format", options.record.format, format_help())->group("Output");
    record->add_option("--stats", options.record.stats, "Write the run's own figures as JSON")->group("Output");
    record->add_flag("-q,--quiet", options.record.quiet, "No progress and no closing line")->group("Output");
    record->footer(std::string("Examples:\n"
                               "  pyprof record --pid 123 -o out.svg\n"
                               "  pyprof record -o out.svg -- python3 app.py --flag\n"
                               "  pyprof record --pid 123 -d 30s -r 200 -f speedscope -o p.speedscope.json\n"
                               "  pyprof record --pid 123 --idle -t -f collapsed -o -\n\n") +
                   kExitCodes);
    return record;
}

CLI::App* add_dump(CLI::App& app, Options& options) {
    CLI::App* dump = app.add_subcommand("dump", "Print the stack of every thread, leaf first");
    dump->add_option("-p,--pid", options.dump_pid, "Process to look at")->group("Target");
    dump->add_option("--replay", options.dump.replay, "Read a snapshot instead of a process")->group("Target");
    dump->add_flag("--json", options.dump.json, "One JSON object")->group("Output");
    dump->add_flag("--native", options.dump.native, "C, C++ and Rust frames, too, and threads without Python")->group("Output");
    dump->add_flag("--native-all", options.dump.native_all, "... the interpreter's own machinery included")->group("Output");
    dump->add_option("--async", options.dump_async, "Tasks of asyncio: on, off (default: on where a loop is found)")->group("Output")->expected(0, 1);
    dump->add_flag("--full-filenames", options.dump.full_filenames, "Do not shorten file names")->group("Output");
    dump->add_option("--snapshot", options.dump.snapshot, "Also record every byte that was read into this file")->group("Output");
    dump->add_flag("--nonblocking", options.dump.nonblocking, "Do not stop the process for the copy")->group("Sampling");
    dump->footer(std::string("Examples:\n  pyprof dump --pid 123\n  pyprof dump --pid 123 --json | jq '.threads[].name'\n\n") +
                 kExitCodes);
    return dump;
}

CLI::App* add_doctor(CLI::App& app, Options& options) {
    CLI::App* doctor = app.add_subcommand("doctor", "Say what pyprof may do here, what it finds in a process, and what helps");
    doctor->add_option("-p,--pid", options.doctor_pid, "Process to look at")->group("Target");
    doctor->add_flag("--json", options.doctor.json, "One JSON object")->group("Output");
    doctor->footer("Examples:\n  pyprof doctor\n  pyprof doctor --pid 123\n\n"
                   "Exit code: 0 when nothing is in the way, else that of the first problem: 3, 4, 5, or 1.");
    return doctor;
}

std::string guess_command(const CLI::App& app, std::string_view wrong) {
    std::vector<std::string> known;
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
    const std::string guess = did_you_mean(wrong, known);
    return guess.empty() ? "`pyprof --help` lists the commands" : guess;
}

Result<void> set_async(Options& options, const CLI::App& record) {
    AsyncOptions& async = options.record.async;
    const auto mode = async_mode(options.async);
    if (!mode) return tl::unexpected(mode.error());
    if (options.async_weight != "task" && options.async_weight != "share") {
        return fail(ExitCode::kUsage, "--async-weight " + options.async_weight + " is not known", "known are: task, share");
    }
    async.mode = *mode;
    // Waiting tasks are idle.
    if (async.mode == AsyncMode::kAll && options.gil) return fail(ExitCode::kUsage, "both --async=all and --gil", "use one of them");
    async.weight = options.async_weight == "share" ? AsyncWeight::kShare : AsyncWeight::kTask;
    async.with_inferred = !options.no_inferred;
    if (record.count("--async-weight") > 0 && async.mode != AsyncMode::kAll) {
        return fail(ExitCode::kUsage, "--async-weight without waiting tasks", "add --async=all");
    }
    if (record.count("--track-creation") > 0) {
        if (async.mode == AsyncMode::kOff) return fail(ExitCode::kUsage, "--track-creation without tasks", "add --async=running or --async=all");
        async.with_origins = true;
        const std::string& depth = options.track_creation;
        const bool is_number = !depth.empty() && depth.size() <= 3 && depth.find_first_not_of("0123456789") == std::string::npos;
        options.record.track_creation = is_number ? std::stoi(depth) : depth.empty() ? kCreationDepth : 0;
        if (options.record.track_creation < 1 || options.record.track_creation > kMostCreationDepth) {
            return fail(ExitCode::kUsage, fmt::format("--track-creation={} is no depth", depth), "give a number of frames from 1 to 100");
        }
    }
    return {};
}

Result<int> start_record(Options& options, const CLI::App& record, std::vector<std::string> command) {
    RecordSettings& settings = options.record;
    auto program = program_of(record, std::move(command));
    if (!program) return tl::unexpected(program.error());
    settings.command = std::move(*program);
    const bool has_pid = record.count("--pid") > 0;
    if (has_pid == !settings.command.empty()) {
        return fail(ExitCode::kUsage, has_pid ? "both --pid and a program to start" : "nothing to profile",
                    "use `pyprof record --pid N` or `pyprof record -- python3 app.py`");
    }
    if (has_pid) {
        const auto pid = checked_pid(options.record_pid);
        if (!pid) return tl::unexpected(pid.error());
        settings.pid = *pid;
    }
    const auto rate = parse_rate(options.rate);
    if (!rate) return tl::unexpected(rate.error());
    settings.rate_hz = *rate;
    if (!options.duration.empty()) {
        const auto duration = parse_duration(options.duration);
        if (!duration) return tl::unexpected(duration.error());
        settings.duration = *duration;
    }
    settings.native = settings.native || settings.native_all;
    if (settings.debuginfod && !settings.native) return fail(ExitCode::kUsage, "--debuginfod without native frames", "add --native");
    const auto which = which_threads(options.idle, options.gil);
    if (!which) return tl::unexpected(which.error());
    settings.which = *which;
    const auto asked = set_async(options, record);
    if (!asked) return tl::unexpected(asked.error());
    return run_record(settings);
}

Result<int> start_dump(Options& options, const CLI::App& dump) {
    if (options.dump.replay.empty()) {
        if (dump.count("--pid") == 0) return fail(ExitCode::kUsage, "no process given", "use `pyprof dump --pid N`");
        const auto pid = checked_pid(options.dump_pid);
        if (!pid) return tl::unexpected(pid.error());
        options.dump.pid = *pid;
    }
    if (options.dump_async != "on" && options.dump_async != "off" && !options.dump_async.empty()) {
        return fail(ExitCode::kUsage, fmt::format("--async={} is neither on nor off", options.dump_async), "use --async or --async=off");
    }
    options.dump.tasks = options.dump_async != "off";
    options.dump.native = options.dump.native || options.dump.native_all;
    if (options.dump.native && !options.dump.replay.empty()) {
        return fail(ExitCode::kUsage, "a snapshot has no native frames", "leave out --native, or use --pid");
    }
    return run_dump(options.dump);
}

Result<int> start_doctor(Options& options, const CLI::App& doctor) {
    if (doctor.count("--pid") > 0) {
        const auto pid = checked_pid(options.doctor_pid);
        if (!pid) return tl::unexpected(pid.error());
        options.doctor.pid = *pid;
    }
    return run_doctor(options.doctor);
}

}  // namespace

int run_app(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves is an EPIPE, which the outputs handle
    raise_open_file_limit();
    CLI::App app("A sampling profiler for running Python programs. It reads their memory and changes nothing in them.", "pyprof");
    app.set_version_flag("--version", std::string("pyprof ") + PYPROF_VERSION);
    app.require_subcommand(1);
    app.footer(kExitCodes);
    Options options;
    CLI::App* record = add_record(app, options);
    CLI::App* top = add_top(app, options.top, options.top_flags, kExitCodes);
    CLI::App* dump = add_dump(app, options);
    CLI::App* doctor = add_doctor(app, options);
    CLI::App* watch = add_watch(app, options.watch, options.watch_flags);

    // What follows `--` is the program to start, whatever it looks like.
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto separator = std::find(arguments.begin(), arguments.end(), "--");
    std::vector<std::string> command;
    if (separator != arguments.end()) command.assign(separator + 1, arguments.end());
    arguments.erase(separator, arguments.end());
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
        app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app.help());
        return 0;
    } catch (const CLI::CallForVersion&) {
        fmt::print("pyprof {}\n", PYPROF_VERSION);
        return 0;
    } catch (const CLI::ParseError& error) {
        if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
            return usage_error(fmt::format("no command '{}'", argv[1]), guess_command(app, argv[1]));
        }
        return usage_error(error.what(), "`pyprof --help` and `pyprof record --help` show the usage");
    }
    const Result<int> result = record->parsed() ? start_record(options, *record, std::move(command))
                               : top->parsed()  ? start_top(options.top, options.top_flags, *top, std::move(command))
                               : dump->parsed() ? start_dump(options, *dump)
                               : watch->parsed() ? start_watch(options.watch, options.watch_flags, *watch, std::move(command))
                                                : start_doctor(options, *doctor);
    if (result) return *result;
    print_error(result.error());
    return static_cast<int>(result.error().code);
}

}  // namespace pyprof
