// SPDX-License-Identifier: Apache-2.0
//
// Names of tasks and coroutines, which are the same in look after look: a str is compared with what it was when
// its text was read, and read anew only where it differs.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>
#include <pyprof/profile.h>

#include <tsl/robin_map.h>

#include <array>
#include <cstdint>

namespace pyprof {

struct TaskName {
    StringId given = kNoString;  // what the program called it; empty where asyncio numbered it
    std::uint64_t number = 0;    // of "Task-N"; 0: none
};

class TaskNames {
public:
    TaskNames(const Layout& layout, StackTable& stacks) : layout_(&layout), stacks_(&stacks) {}

    // From task_name: a str, or from 3.12 on an int that stands for "Task-N".
    [[nodiscard]] TaskName read_name(Memory& memory, Address object, bool is_int);
    // Any str; kNoString where it can't be read.
    [[nodiscard]] StringId read_text(Memory& memory, Address object) { return read_name(memory, object, false, false).given; }

private:
    // From the length of a str on: enough to tell two apart whose hash is not known yet.
    static constexpr std::size_t kStampBytes = 96;
    struct Known {
        std::array<std::byte, kStampBytes> stamp{};
        std::size_t bytes = 0;
        TaskName name;
        bool may_be_default = false;
    };
    TaskName read_name(Memory& memory, Address object, bool is_int, bool may_be_default);

    const Layout* layout_;
    StackTable* stacks_;
    tsl::robin_map<std::uint64_t, Known> known_;  // by address
};

}  // namespace pyprof
