// SPDX-License-Identifier: Apache-2.0
//
// The command line, as far as it comes without a process: what is wrong is named with a remedy, on stderr, with the
// exit code of its kind.
#include "cli/app.h"

#include "captured.h"

#include <string>
#include <vector>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct Ran {
    int code = 0;
    std::string out;
    std::string err;
};

Ran run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "pyprof");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    Captured out(STDOUT_FILENO);
    Captured err(STDERR_FILENO);
    Ran ran;
    ran.code = run_app(static_cast<int>(argv.size()), argv.data());
    ran.out = out.text();
    ran.err = err.text();
    return ran;
}

void check_usage(const std::vector<std::string>& arguments, const std::string& message, const std::string& hint) {
    const Ran ran = run(arguments);
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::StartsWith("pyprof: ") && Catch::Contains(message) && Catch::Contains("\nhint: ") && Catch::Contains(hint));
}

}  // namespace

TEST_CASE("options: wrong usage is told with a remedy and ends with 2") {
    check_usage({}, "subcommand is required", "--help");
    check_usage({"record", "--no-such-option"}, "no option '--no-such-option'", "record --help");
    check_usage({"record", "--idel", "--", "true"}, "no option '--idel'", "record --help");
    check_usage({"record", "python3", "--", "true"}, "'python3' stands before --", "after it");
    check_usage({"top", "--idel", "--", "true"}, "no option '--idel'", "top --help");
    check_usage({"watch", "--idel", "--", "true"}, "no option '--idel'", "watch --help");
    check_usage({"dump", "--no-such-option"}, "--no-such-option", "--help");
    check_usage({"record"}, "nothing to profile", "--pid N");
    check_usage({"record", "--pid", "1", "--", "true"}, "both --pid and a program", "--pid N");
    check_usage({"dump"}, "no process given", "--pid N");
    for (const char* pid : {"0", "-1", "99999999999"}) check_usage({"dump", "--pid", pid}, pid, "");
    check_usage({"record", "--pid", "1", "--idle", "--gil"}, "both --idle and --gil", "one of them");
    for (const char* command : {"record", "top"}) {
        check_usage({command, "--pid", "1", "--async=all", "--gil"}, "both --async=all and --gil", "one of them");
    }
    check_usage({"record", "--pid", "1", "-r", "fast"}, "'fast' is not a rate", "10k");
    check_usage({"record", "--pid", "1", "-r", "0"}, "out of range", "0.001");
    check_usage({"record", "--pid", "1", "-d", "soon"}, "'soon' is not a duration", "2m");
    check_usage({"record", "--pid", "1", "-f", "gif"}, "unknown format gif", "flamegraph");
    check_usage({"top", "--pid", "1", "--interval", "1ms"}, "below 50 ms", "100ms");
    check_usage({"dump", "--pid", "1", "--async=maybe"}, "maybe", "--async=off");
}

TEST_CASE("options: a name that is nearly a command's is guessed") {
    check_usage({"recrod", "--pid", "1"}, "no command 'recrod'", "did you mean record?");
    check_usage({"dmup"}, "no command 'dmup'", "did you mean dump?");
    const Ran other = run({"entirely-different"});
    CHECK(other.code == 2);
    CHECK_THAT(other.err, !Catch::Contains("did you mean"));
}

TEST_CASE("options: help and version go to stdout") {
    for (const auto& arguments : std::vector<std::vector<std::string>>{{"--help"}, {"record", "--help"}, {"dump", "-h"}, {"doctor", "--help"}}) {
        const Ran ran = run(arguments);
        CHECK(ran.code == 0);
        CHECK(ran.err.empty());
        CHECK_THAT(ran.out, Catch::Contains(arguments.size() == 1 ? "Exit codes:" : "--pid"));
    }
    const Ran version = run({"--version"});
    CHECK(version.code == 0);
    CHECK_THAT(version.out, Catch::StartsWith("pyprof "));
}

TEST_CASE("options: no such process is 3, and an output appears for none") {
    for (const auto& command : std::vector<std::vector<std::string>>{{"record", "-o", "/no/such/directory/out.svg"}, {"dump"}, {"doctor"}}) {
        std::vector<std::string> arguments = command;
        arguments.insert(arguments.end(), {"--pid", "4194304"});  // above what the kernel gives out
        const Ran ran = run(arguments);
        CHECK(ran.code == 3);
        CHECK_THAT(ran.out + ran.err, Catch::Contains("4194304"));
    }
}

TEST_CASE("options: our own failures before a launch are 125 to 127") {
    CHECK(run({"record", "-o", "/no/such/directory/out.svg", "--", "true"}).code == 125);
    CHECK(run({"record", "-o", "/dev/null", "--", "/etc/passwd"}).code == 126);
    CHECK(run({"record", "-o", "/dev/null", "--", "/no/such/program"}).code == 127);
}
