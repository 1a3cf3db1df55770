// SPDX-License-Identifier: Apache-2.0
//
// What reaches a terminal, and the closing figures of a recording.
#include "cli/messages.h"

#include "captured.h"
#include "cli/run_report.h"

#include <rapidjson/document.h>

#include <csignal>
#include <set>
#include <sstream>

using namespace pyprof;
using namespace pyprof::test;
using namespace std::chrono_literals;

TEST_CASE("messages: one line with the reason, one with the remedy") {
    Captured err(STDERR_FILENO);
    print_error({ExitCode::kNoProcess, "no process 123", ""});
    print_error({ExitCode::kPermission, "process 123 belongs to alice; you are bob", "run it as root"});
    CHECK(err.text() ==
          "pyprof: no process 123\n"
          "pyprof: process 123 belongs to alice; you are bob\n"
          "hint: run it as root\n");
}

TEST_CASE("messages: names of a target can't move a cursor") {
    Captured err(STDERR_FILENO);
    print_error({ExitCode::kFailure, "a\x1b]0;owned\x07", "two\nlines\x9b"});
    const std::string text = err.text();
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find('\x07') == std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

TEST_CASE("messages: a reader that has left is no failure, a full disk is") {
    std::signal(SIGPIPE, SIG_IGN);  // as run_app does
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::close(ends[0]);
    const UniqueFd kept(::dup(STDOUT_FILENO));
    ::dup2(ends[1], STDOUT_FILENO);
    const auto left = print_out("data\n");
    ::dup2(kept.get(), STDOUT_FILENO);
    ::close(ends[1]);
    CHECK(left);
    std::FILE* full = std::fopen("/dev/full", "w");
    if (full == nullptr) return;
    ::dup2(::fileno(full), STDOUT_FILENO);
    const auto lost = print_out("data\n");
    ::dup2(kept.get(), STDOUT_FILENO);
    std::fclose(full);
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == ExitCode::kFailure);
    CHECK_THAT(lost.error().message, Catch::Contains("stdout"));
}

TEST_CASE("messages: a very long command loses its middle") {
    CHECK(joined({"python3", "-c", "pass"}) == "python3 -c pass");
    const std::string text = joined({"python3", std::string(100'000, 'x'), "end"});
    CHECK(text.size() < 5'000);
    CHECK(text.rfind("python3 ", 0) == 0);
    CHECK(text.substr(text.size() - 4) == " end");
}

namespace {

ResolvedProfile recorded() {
    ResolvedProfile profile;
    profile.facts.which_threads = "running";
    profile.facts.rate_hz = 100;
    profile.total_samples = 1'000;
    profile.weights.resize(7);
    profile.figures.ticks = 990;
    profile.figures.samples = 900;
    profile.figures.reused = 100;
    profile.figures.busiest_thread_samples = 950;
    profile.figures.elapsed = 10s;
    profile.figures.profiler_cpu = 100ms;
    return profile;
}

}  // namespace

TEST_CASE("run report: a good run says little, a bad one all that went wrong") {
    ResolvedProfile profile = recorded();
    CHECK(closing_line(profile, 0, "out.svg") ==
          "pyprof: out.svg: 1000 samples of running threads in 10.0 s (95.0/s for the busiest), 7 distinct stacks; pyprof used "
          "1.0 % of a processor");
    RunFigures& figures = profile.figures;
    figures.truncated = 25;
    figures.refused = 3;
    figures.unknown = 4;
    figures.frameless = 10;  // no more than a hundredth
    CHECK_THAT(closing_line(profile, 0, "stdout"), !Catch::Contains("without a Python frame"));
    figures.frameless = 20;
    figures.late = 10;
    figures.paused = 2s;
    figures.lost = 5;
    figures.stops = 6;
    figures.stopped = 300us;
    figures.errors = 8;
    const std::string line = closing_line(profile, 2, "stdout");
    for (const char* part : {"25 truncated (2.50 %)", "3 refused", "4 of threads in an unknown state left out",
                             "20 of running threads without a Python frame left out", "10 late (1.0 % of all ticks)",
                             "2.0 s in which pyprof stood still", "5 lost", "6 short stops (0.3 ms in all)", "8 read errors", "2 Python children not profiled"}) {
        CHECK_THAT(line, Catch::Contains(part));
    }
}

TEST_CASE("run report: above 20 kHz it says that the program is disturbed") {
    const char* const kNote = "above 20 kHz the program is disturbed";
    ResolvedProfile profile = recorded();
    for (const double rate : {20'001.0, 0.0}) {
        profile.facts.rate_hz = rate;
        CHECK_THAT(closing_line(profile, 0, "out.svg"), Catch::Contains(kNote));
    }
    profile.facts.rate_hz = 20'000;
    CHECK_THAT(closing_line(profile, 0, "out.svg"), !Catch::Contains(kNote));
}

TEST_CASE("run report: nothing was sampled") {
    ResolvedProfile profile;
    profile.facts.which_threads = "all";
    CHECK(closing_line(profile, 0, "out.svg") == "pyprof: out.svg: 0 samples of all threads in 0.0 s (0.0/s for the busiest), 0 distinct stacks");
}

TEST_CASE("run report: the figures as JSON have the keys that scripts rely on") {
    ResolvedProfile profile = recorded();
    profile.figures.truncated = 25;
    profile.figures.remote_reads = 12;
    std::ostringstream out;
    write_stats(profile, 2, out);
    rapidjson::Document document;
    document.Parse(out.str().c_str());
    REQUIRE(document.IsObject());
    const std::pair<const char*, double> expected[] = {
        {"ticks", 990}, {"samples", 900},     {"reused", 100},           {"truncated", 25},    {"refused", 0},         {"frameless", 0},        {"late", 0},
        {"errors", 0},  {"elapsed_s", 10},       {"paused_s", 0},    {"rate_hz", 95},           {"profiler_cpu_s", 0.1}, {"remote_reads", 12}, {"distinct_stacks", 7},
        {"schema", 1},  {"python_children", 2}};
    for (const auto& [key, value] : expected) {
        INFO(key);
        REQUIRE(document.HasMember(key));
        CHECK(document[key].GetDouble() == Approx(value));
    }
    std::set<std::string> keys;
    for (const auto& member : document.GetObject()) CHECK(keys.insert(member.name.GetString()).second);
}
