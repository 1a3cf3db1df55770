// SPDX-License-Identifier: Apache-2.0
//
// The one place that writes to a target: single ints that the user has asked us to set for a while, each put
// back on every way out. Before a word is written a process of our own is told of it; should we be killed, that
// one puts it back. What it can't survive is being killed as well (SIGKILL to the whole control group).
//
// A word is only touched while what must stand around it stands there. The memory stays that of the program that
// was opened: after an exec nothing can be written any more.
#pragma once

#include "base/unique_fd.h"

#include <pyprof/address.h>
#include <pyprof/error.h>

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

namespace pyprof {

class WriteBack {
public:
    struct Word {
        Address address{};
        std::int32_t before = 0;
        std::int32_t after = 0;
        struct Guard {  // what must stand at that place; a null place guards nothing
            Address address{};
            std::uint64_t value = 0;
        };
        std::array<Guard, 3> guards{};
    };

    // Starts the process that puts words back: call it while this program has one thread.
    static Result<WriteBack> start(pid_t pid);
    ~WriteBack();
    WriteBack(WriteBack&& other) noexcept = default;
    WriteBack& operator=(WriteBack&&) = delete;

    enum class Outcome : std::uint8_t {
        kDone,
        kGone,     // what guards it has changed, or the memory is no more
        kChanged,  // another value stands there than was expected
        kRefused,  // it can't be written
    };
    Outcome put(const Word& word);
    // Where `after` still stands.
    Outcome undo(const Word& word);

private:
    WriteBack(UniqueFd memory, UniqueFd pipe, pid_t keeper)
        : memory_(std::move(memory)), pipe_(std::move(pipe)), keeper_(keeper) {}

    UniqueFd memory_;
    UniqueFd pipe_;  // to the process that puts words back; its end without a word of farewell means that we died
    pid_t keeper_ = 0;
    std::vector<Word> words_;  // not put back yet
};

}  // namespace pyprof
