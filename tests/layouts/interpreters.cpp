// SPDX-License-Identifier: Apache-2.0
//
// scripts/pythons prints one interpreter a line; a program is a child with two pipes.
#include "layouts/interpreters.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sstream>

namespace pyprof::test {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

}  // namespace

std::string Interpreter::build() const {
    return version + (kind == "debug" ? "d" : kind == "freethreaded" ? "t" : "");
}

std::vector<Interpreter> interpreters(const std::string& test_directory) {
    std::vector<Interpreter> all;
    const std::string command = "'" + test_directory + "/../scripts/pythons' --tsv --no-fetch 2>/dev/null";
    std::FILE* stream = ::popen(command.c_str(), "r");
    if (stream == nullptr) return all;
    char* line = nullptr;
    std::size_t capacity = 0;
    for (ssize_t length = 0; (length = ::getline(&line, &capacity, stream)) > 0;) {
        const auto fields = split(std::string(line, static_cast<std::size_t>(length - 1)), '\t');
        if (fields.size() != 5) continue;
        all.push_back({fields[0], fields[1], fields[2], split(fields[4], ' ')});
    }
    std::free(line);
    ::pclose(stream);
    return all;
}

PythonProgram::PythonProgram(const Interpreter& interpreter, const std::string& source,
                             const std::vector<std::string>& arguments) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
    std::vector<std::string> words = interpreter.command;
    words.insert(words.end(), {"-c", source});
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = ::fdopen(out[0], "r");
}

PythonProgram::~PythonProgram() {
    if (input_ >= 0) ::close(input_);
    if (output_ != nullptr) std::fclose(output_);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::vector<std::string> PythonProgram::read_until_ready() {
    std::vector<std::string> lines;
    char* line = nullptr;
    std::size_t capacity = 0;
    for (ssize_t length = 0; (length = ::getline(&line, &capacity, output_)) > 0;) {
        lines.emplace_back(line, static_cast<std::size_t>(length - 1));
        if (lines.back() == "ready") break;
    }
    std::free(line);
    return lines;
}

}  // namespace pyprof::test
