// SPDX-License-Identifier: Apache-2.0
#include "cli/top_options.h"

#include "base/parse.h"
#include "cli/program_of.h"
#include "cli/shared_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <utility>

namespace pyprof {

namespace {

Result<void> set_target(TopSettings& settings, const TopFlags& flags, const CLI::App& top) {
    const bool has_pid = top.count("--pid") > 0;
    if (has_pid == !settings.command.empty()) {
        return fail(ExitCode::kUsage, has_pid ? "both --pid and a program to start" : "nothing to look at",
                    "use `pyprof top --pid N` or `pyprof top -- python3 app.py`");
    }
    if (!has_pid) return {};
    const auto pid = checked_pid(flags.pid);
    if (!pid) return tl::unexpected(pid.error());
    settings.pid = *pid;
    return {};
}

Result<void> set_view(TopSettings& settings, const TopFlags& flags) {
    const auto which = which_threads(flags.idle, flags.gil);
    if (!which) return tl::unexpected(which.error());
    const auto async = async_mode(flags.async);
    if (!async) return tl::unexpected(async.error());
    if (*async != AsyncMode::kOff && settings.native) {
        return fail(ExitCode::kUsage, "both --async and --native", "tasks are joined with Python frames alone; the keys a and v change between them");
    }
    settings.async = *async;
    // Waiting tasks are idle.
    if (settings.async == AsyncMode::kAll && flags.gil) return fail(ExitCode::kUsage, "both --async=all and --gil", "use one of them");
    settings.which = settings.async == AsyncMode::kAll ? WhichThreads::kAll : *which;
    return {};
}

}  // namespace

CLI::App* add_top(CLI::App& app, TopSettings& settings, TopFlags& flags, const std::string& exit_codes) {
    CLI::App* top = app.add_subcommand("top", "Show where a Python program spends its time, while it runs");
    top->prefix_command();
    top->add_option("-p,--pid", flags.pid, "Process to look at")->group("Target");
    top->add_option("-r,--rate", flags.rate, "Samples a second: 100, 2.5, 10k, max")->group("Sampling")->capture_default_str();
    top->add_flag("--nonblocking", settings.nonblocking, "Never stop a thread, not even for 50 us to prove a stack")->group("Sampling");
    top->add_option("--interval", flags.interval, "Time between two screens: 500ms, 2s")->group("What to show")->capture_default_str();
    top->add_flag("--idle", flags.idle, "Sleepers, GIL waiters and disk waits, too")->group("What to show");
    top->add_flag("--gil", flags.gil, "Only the thread that holds the GIL")->group("What to show");
    top->add_flag("-t,--threads", settings.per_thread, "Each thread for itself")->group("What to show");
    top->add_flag("-l,--lines", settings.with_lines, "Lines instead of functions")->group("What to show");
    top->add_flag("--native", settings.native, "C, C++ and Rust frames, too, by a short stop a sample")->group("What to show");
    top->add_option("--async", flags.async, "Asyncio: off, running (what runs, below the tasks that wait for it) or all (waiting tasks, too)")->group("What to show")->capture_default_str();
    top->add_flag("--errors", settings.with_errors, "Standard errors")->group("What to show");
    top->add_flag("--full-filenames", settings.full_filenames, "Do not shorten file names in what is saved")->group("What to show");
    top->add_flag("--batch", settings.batch, "A plain table each interval, as without a terminal")->group("Output");
    top->add_flag("--json", settings.json, "One JSON object a line each interval")->group("Output");
    top->add_option("-n,--count", flags.count, "Intervals to show without a screen (default: until the end)")->group("Output");
    top->add_option("--rows", settings.most_rows, "Rows of the plain table, 0 for all")->group("Output")->capture_default_str();
    top->footer("Examples:\n"
                "  pyprof top --pid 123\n"
                "  pyprof top -- python3 app.py\n"
                "  pyprof top --pid 123 --batch -n 1\n"
                "  pyprof top --pid 123 --json -n 60 > minute.jsonl\n\n" +
                exit_codes);
    return top;
}

Result<int> start_top(TopSettings& settings, const TopFlags& flags, const CLI::App& top, std::vector<std::string> command) {
    auto program = program_of(top, std::move(command));
    if (!program) return tl::unexpected(program.error());
    settings.command = std::move(*program);
    if (const auto target = set_target(settings, flags, top); !target) return tl::unexpected(target.error());
    const auto rate = parse_rate(flags.rate);
    if (!rate) return tl::unexpected(rate.error());
    settings.rate_hz = *rate;
    const auto interval = parse_duration(flags.interval);
    if (!interval) return tl::unexpected(interval.error());
    settings.interval = std::chrono::duration_cast<std::chrono::milliseconds>(*interval);
    if (settings.interval < std::chrono::milliseconds(50)) return fail(ExitCode::kUsage, "an interval below 50 ms", "use 100ms or more");
    if (const auto view = set_view(settings, flags); !view) return tl::unexpected(view.error());
    if (top.count("--count") > 0) {
        if (flags.count == 0) return fail(ExitCode::kUsage, "a count of 0", "use 1 or more");
        settings.count = flags.count;
        settings.batch = true;
    }
    return run_top(settings);
}

}  // namespace pyprof
