// SPDX-License-Identifier: Apache-2.0
//
// The interpreters of a process and their thread states, as lists copied out of the target. Lists are
// bounded and may be torn: what can't be read ends that list alone, is counted, and spoils no other.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <vector>

namespace pyprof {

struct ThreadState {
    Address address{};
    Address interpreter{};
    std::uint64_t pthread = 0;         // pthread_t
    std::uint64_t native_thread_id = 0;  // in the target's pid namespace; 0 up to 3.10
    bool is_main = false;              // the first one its interpreter made
};

struct InterpreterState {
    Address address{};
    std::int64_t id = 0;
    Address runtime{};
};

struct ThreadList {
    std::vector<InterpreterState> interpreters;  // as listed: the newest first, the main one last
    std::vector<ThreadState> threads;            // of all interpreters, newest first within each
    std::uint32_t broken_lists = 0;              // lists that ended before their end
};

[[nodiscard]] ThreadList read_thread_list(Memory& memory, const Layout& layout, Address runtime);

// What the interpreter says of its GIL and its garbage collector, read in one call per interpreter.
struct GilFacts {
    bool has_gil = true;
    Address holder{};        // thread state; null when nobody holds it or when threads tell it themselves
    Address gil_begin{};     // a thread blocked on a futex within [begin, end) waits for the GIL
    Address gil_end{};
    bool is_collecting = false;
};
[[nodiscard]] GilFacts read_gil_facts(Memory& memory, const Layout& layout, Address runtime, Address interpreter);

// From 3.13 on the thread says it itself; `thread_bytes` begin at the thread state.
[[nodiscard]] bool thread_holds_gil(const Layout& layout, const GilFacts& facts, Address thread,
                                    const std::byte* thread_bytes);

}  // namespace pyprof
