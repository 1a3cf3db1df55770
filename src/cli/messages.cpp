// SPDX-License-Identifier: Apache-2.0
#include "cli/messages.h"

#include "base/patient_write.h"
#include "base/text.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace pyprof {

void print_line(const std::string& line) {
    // Whoever read our messages may have left: there is nobody to complain to.
    write_all(STDERR_FILENO, escape_control(line) + "\n");
}

Result<void> print_out(const std::string& text) {
    const int error = write_all(STDOUT_FILENO, text);
    if (error == 0 || error == EPIPE) return {};
    return fail(ExitCode::kFailure, fmt::format("can't write stdout: {}", std::generic_category().message(error)));
}

void print_error(const Error& error) {
    print_line("pyprof: " + error.message);
    if (!error.hint.empty()) print_line("hint: " + error.hint);
}

std::string joined(const std::vector<std::string>& words) {
    constexpr std::size_t kLongest = 4096;
    return elide_middle(fmt::format("{}", fmt::join(words, " ")), kLongest);
}

}  // namespace pyprof
