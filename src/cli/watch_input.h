// SPDX-License-Identifier: Apache-2.0
//
// Commands of a script: lines of a file or of stdin as they come. Lines are bounded; a last line without a
// newline counts.
#pragma once

#include <pyprof/error.h>

#include <functional>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace pyprof {

class WatchScript {
public:
    // "-" or empty: stdin.
    static Result<WatchScript> open(const std::string& path);

    // `wait` returns once the descriptor is readable, or false when no more is wanted.
    Result<std::optional<std::string>> next_line(const std::function<bool(int fd)>& wait);
    [[nodiscard]] std::size_t line_number() const { return line_number_; }

private:
    static constexpr std::size_t kLongestLine = 64 * 1024;

    UniqueFd file_;
    int fd_ = 0;
    std::string pending_;
    std::size_t line_number_ = 0;
    bool is_at_end_ = false;
};

}  // namespace pyprof
