// SPDX-License-Identifier: Apache-2.0
//
// Lines that a person types, with history and completion (libedit). Between two keys a function of the caller's
// runs, so that sampling is served while somebody thinks. It never leaves the terminal raw.
#pragma once

#include "live/watch_history.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

class WatchPrompt {
public:
    enum class Wake { kInput, kCancelled, kEnd };  // a key waits; Ctrl-C: another line; no more lines
    // Returns when there is something to read on stdin, or for another reason.
    using WaitForKey = std::function<Wake()>;
    // All words that may follow `line`, which is what stands left of the cursor.
    using Complete = std::function<std::vector<std::string>(std::string_view line)>;

    WatchPrompt(std::string prompt, WaitForKey wait_for_key, Complete complete, WatchHistory history);
    ~WatchPrompt();
    WatchPrompt(const WatchPrompt&) = delete;
    WatchPrompt& operator=(const WatchPrompt&) = delete;

    // Nothing: end of input.
    std::optional<std::string> read_line();
    // Prints above the line that is being typed.
    void print_above(const std::function<void()>& print);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace pyprof
