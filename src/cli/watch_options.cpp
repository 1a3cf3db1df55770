// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_options.h"

#include "base/parse.h"
#include "cli/program_of.h"
#include "cli/shared_options.h"
#include "live/watch_config.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace pyprof {

namespace {

constexpr std::size_t kLongestConfig = 1 << 20;

Result<WatchConfig> read_config(const std::string& path) {
    if (path.empty()) return WatchConfig{};
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(ExitCode::kUsage, fmt::format("can't read {}: {}", path, std::strerror(errno)));
    std::string text(kLongestConfig + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLongestConfig) return fail(ExitCode::kUsage, fmt::format("{} is larger than 1 MiB", path));
    auto config = parse_watch_config(text);
    if (!config) return tl::unexpected(with_context(config.error(), path));
    return config;
}

}  // namespace

CLI::App* add_watch(CLI::App& app, WatchSettings& settings, WatchFlags& flags) {
    CLI::App* watch = app.add_subcommand("watch", "Measure chosen functions of a running program, with errors");
    watch->prefix_command();
    watch->add_option("-p,--pid", flags.pid, "Process to sample (else: the command start)")->group("Target");
    watch->add_option("-f,--function", settings.functions, "Names: f, Class.method, module:f, file.py:f, 'glob*'")->group("Functions");
    watch->add_option("--config", flags.config, "TOML file with functions, rate, threads, nonblocking")->group("Functions");
    watch->add_option("-r,--rate", flags.rate, "Samples a second: 100, 2.5, 10k")->group("Sampling")->capture_default_str();
    watch->add_flag("--idle", flags.idle, "Sleepers, GIL waiters and disk waits, too")->group("Sampling");
    watch->add_flag("--gil", flags.gil, "Only the thread that holds the GIL")->group("Sampling");
    watch->add_flag("--nonblocking", settings.nonblocking, "Never stop a thread, not even for 50 us to prove a stack")->group("Sampling");
    watch->add_option("--commands", settings.commands, "Read commands from this file (default: stdin)")->group("Commands");
    watch->add_option("-d,--duration", flags.duration, "No commands: sample so long, print the results")->group("Commands");
    watch->add_flag("--json", settings.json, "One JSON object a line")->group("Output");
    watch->add_flag("-q,--quiet", settings.quiet, "No notes, only what was asked for and errors")->group("Output");
    watch->footer("Examples:\n"
                  "  pyprof watch --pid 123 -f render -f 'Page.*'\n"
                  "  pyprof watch --pid 123 -f json:dumps -d 10s\n"
                  "  printf 'wait 10s\\nresults\\nsave out.svg\\n' | pyprof watch --pid 123 -f render --json\n"
                  "  pyprof watch -f work -- python3 app.py\n\n"
                  "Exit code: 0, or that of the first command of a script that failed; with a launched program its status.");
    return watch;
}

Result<int> start_watch(WatchSettings& settings, const WatchFlags& flags, const CLI::App& watch, std::vector<std::string> command) {
    auto program = program_of(watch, std::move(command));
    if (!program) return tl::unexpected(program.error());
    settings.command = std::move(*program);
    if (watch.count("--pid") > 0) {
        if (!settings.command.empty()) return fail(ExitCode::kUsage, "both --pid and a program to start", "use one of them");
        const auto pid = checked_pid(flags.pid);
        if (!pid) return tl::unexpected(pid.error());
        settings.pid = *pid;
    }
    auto config = read_config(flags.config);
    if (!config) return tl::unexpected(config.error());
    settings.functions.insert(settings.functions.begin(), config->functions.begin(), config->functions.end());
    const auto rate = parse_watch_rate(flags.rate);
    if (!rate) return tl::unexpected(rate.error());
    settings.rate_hz = watch.count("--rate") == 0 ? config->rate_hz.value_or(*rate) : *rate;
    if (settings.rate_hz == 0) return tl::unexpected(parse_watch_rate("max").error());
    const bool is_chosen = flags.idle || flags.gil;
    const auto which = which_threads(flags.idle || (!is_chosen && config->threads == "all"),
                                     flags.gil || (!is_chosen && config->threads == "gil"));
    if (!which) return tl::unexpected(which.error());
    settings.which = *which;
    settings.nonblocking = settings.nonblocking || config->nonblocking;
    if (!flags.duration.empty()) {
        const auto duration = parse_duration(flags.duration);
        if (!duration) return tl::unexpected(duration.error());
        if (!settings.commands.empty()) return fail(ExitCode::kUsage, "both --duration and --commands", "a script says wait TIME");
        if (!settings.pid && settings.command.empty()) return fail(ExitCode::kUsage, "nothing to sample", "use --pid N, or a program behind --");
        settings.duration = flags.duration;
    }
    return run_watch(settings);
}

}  // namespace pyprof
