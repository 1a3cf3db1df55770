// SPDX-License-Identifier: Apache-2.0
#include "cli/program_of.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace pyprof {

Result<std::vector<std::string>> program_of(const CLI::App& command, std::vector<std::string> after_separator) {
    std::vector<std::string> rest = command.remaining();
    if (rest.empty()) return after_separator;
    if (rest.front().starts_with('-')) {
        return fail(ExitCode::kUsage, fmt::format("no option '{}'", rest.front()),
                    fmt::format("`pyprof {} --help` lists them; the program to start stands behind them", command.get_name()));
    }
    if (!after_separator.empty()) {
        return fail(ExitCode::kUsage, fmt::format("'{}' stands before --", rest.front()), "the program to start and its arguments stand after it");
    }
    return rest;
}

}  // namespace pyprof
