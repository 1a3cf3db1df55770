// SPDX-License-Identifier: Apache-2.0
//
// The interpreters that scripts/pythons knows, and a Python program of one of them that a test talks to.
#pragma once

#include <sys/types.h>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace pyprof::test {

struct Interpreter {
    std::string name;                  // "3.13", "3.13-sid", "3.14d", "3.13t"
    std::string version;               // "3.13.0"
    std::string kind;                  // release, debug or freethreaded
    std::vector<std::string> command;  // before the program's own arguments

    // As tests/layouts names its files: "3.13.0", "3.14.10d", "3.13.15t".
    [[nodiscard]] std::string build() const;
};

// Only those that are there already; nothing is fetched for a test.
std::vector<Interpreter> interpreters(const std::string& test_directory);

// A program given with -c and its arguments. It is expected to end once its standard input is closed.
class PythonProgram {
public:
    PythonProgram(const Interpreter& interpreter, const std::string& source,
                  const std::vector<std::string>& arguments = {});
    ~PythonProgram();
    PythonProgram(const PythonProgram&) = delete;
    PythonProgram& operator=(const PythonProgram&) = delete;

    // Lines of its output up to one that says "ready", or to its end.
    [[nodiscard]] std::vector<std::string> read_until_ready();
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_ = -1;
    int input_ = -1;  // closing it is the program's sign to end
    std::FILE* output_ = nullptr;
};

}  // namespace pyprof::test
