// SPDX-License-Identifier: Apache-2.0
//
// Wording shared by all titles, so that every format names the same base for the same numbers.
#include "output/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace pyprof {
namespace {

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

bool is_plain(char c) {
    constexpr std::string_view kPlain = "@%+=:,./-_";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPlain.find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80;
}

std::string quoted(const std::string& argument) {
    if (!argument.empty() && std::all_of(argument.begin(), argument.end(), is_plain)) return argument;
    std::string text = "'";
    for (const char c : argument) {
        if (c == '\'') {
            text += "'\\''";
        } else {
            text += c;
        }
    }
    return text + "'";
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
    return fmt::format("{}", fmt::join(parts, between));
}

std::string rate_text(const ResolvedProfile& profile) {
    std::string asked =
        profile.facts.rate_hz > 0 ? fmt::format("{:g} Hz asked", profile.facts.rate_hz) : "as fast as can be";
    const double reached = reached_rate(profile.figures);
    if (reached == 0) return asked;
    return fmt::format(
        "{}, {} Hz reached by the busiest thread{}", asked,
        reached < 100 ? fmt::format("{:.1f}", reached) : with_commas(static_cast<std::uint64_t>(reached)),
        disturbs_program(profile.facts.rate_hz) ? ", which disturbs the program" : "");
}

}  // namespace

std::string_view version() {
    return PYPROF_VERSION;
}

std::string command_text(const ProfileFacts& facts) {
    std::vector<std::string> arguments;
    for (const std::string& argument : facts.command) arguments.push_back(quoted(argument));
    return arguments.empty() ? "unknown command" : escape_control(joined(arguments, " "));
}

std::string base_text(const ResolvedProfile& profile) {
    std::string samples = samples_text(profile.total_samples);
    const std::string& which = profile.facts.which_threads;
    if (which.empty()) return samples;
    if (which == "GIL-holding") return samples + " of the GIL's holder";
    const std::string text = fmt::format("{} of {} threads", samples, escape_control(which));
    const std::string& tasks = profile.facts.tasks_base;
    return tasks.empty() ? text : fmt::format("{} and of waiting tasks, in {}", text, escape_control(tasks));
}

double reached_rate(const RunFigures& figures) {
    const double elapsed = seconds(figures.elapsed);
    return elapsed > 0 ? static_cast<double>(figures.busiest_thread_samples) / elapsed : 0;
}

std::string setting_text(const ResolvedProfile& profile) {
    std::vector<std::string> parts{fmt::format("pid {}", profile.facts.pid)};
    if (!profile.facts.python.empty()) parts.push_back("Python " + escape_control(profile.facts.python));
    parts.push_back(rate_text(profile));
    const double elapsed = seconds(profile.figures.elapsed);
    parts.push_back(fmt::format("{:.1f} s", elapsed));
    const double own = seconds(profile.figures.profiler_cpu);
    if (elapsed > 0 && own > 0) parts.push_back(fmt::format("pyprof used {:.1f}% of a processor", 100 * own / elapsed));
    return joined(parts, " \xC2\xB7 ");
}

std::string count_text(const ResolvedProfile& profile) {
    const RunFigures& figures = profile.figures;
    std::string text = fmt::format("{}, {} refused, {} truncated", samples_text(profile.total_samples),
                                   with_commas(figures.refused), with_commas(figures.truncated));
    if (figures.inferred > 0) text += fmt::format(", {} inferred", with_commas(figures.inferred));
    if (figures.lost > 0) text += fmt::format(", {} lost", with_commas(figures.lost));
    if (figures.late > 0) text += fmt::format(", {} late", with_commas(figures.late));
    if (figures.paused.count() > 0) text += fmt::format(", {:.1f} s not looked at", seconds(figures.paused));
    if (figures.stops > 0) text += fmt::format(", {} short stops ({:.1f} ms in all)", with_commas(figures.stops), 1000 * seconds(figures.stopped));
    return text;
}

std::string with_commas(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, ",");
    }
    return text;
}

std::string samples_text(std::uint64_t number) {
    return with_commas(number) + (number == 1 ? " sample" : " samples");
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return "0%";
    return fmt::format("{:.2f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace pyprof
