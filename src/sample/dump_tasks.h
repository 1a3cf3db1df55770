// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a dump: what a look at asyncio found, with frames and names as text. A task that runs has the
// frames of its thread's stack, down to its own coroutine.
#pragma once

#include "python/asyncio_tasks.h"
#include "python/frames.h"
#include "sample/dump.h"
#include "sample/stack_builder.h"

#include <span>
#include <vector>

namespace pyprof {

// A thread's stack as it was walked in the same look, leaf first.
struct DumpWalk {
    Address thread{};
    std::uint64_t native_id = 0;
    std::vector<RawFrame> frames;
};

class DumpTasks {
public:
    DumpTasks(Memory& memory, const Layout& layout, AsyncioReader& reader, StackBuilder& builder, const StackTable& stacks)
        : memory_(&memory), layout_(&layout), reader_(&reader), builder_(&builder), stacks_(&stacks) {}

    // `is_stopped`: the target stands still; the walks are those of its threads.
    void look(const ThreadList& threads, bool is_stopped, std::span<const DumpWalk> walks, Dump& dump);

private:
    [[nodiscard]] std::vector<DumpFrame> frames_of(const AsyncTask& task, std::span<const DumpWalk> walks);
    [[nodiscard]] std::vector<DumpFrame> frames_of_thread(Address thread, std::span<const DumpWalk> walks);
    void add_greenlets(const AsyncTask& task, std::vector<RawFrame>& frames);
    [[nodiscard]] std::vector<DumpFrame> text_of(std::vector<RawFrame> frames);
    void find_threads(const ThreadList& threads, std::span<const DumpWalk> walks);
    [[nodiscard]] DumpTask describe(const AsyncTask& task, std::span<const DumpWalk> walks);

    Memory* memory_;
    const Layout* layout_;
    AsyncioReader* reader_;
    StackBuilder* builder_;
    const StackTable* stacks_;
    struct Worker {
        TaskWork work;
        std::uint64_t native_id = 0;
    };
    std::vector<Worker> workers_;
    struct Waiter {
        Address future{};  // of concurrent.futures
        std::uint64_t native_id = 0;
    };
    std::vector<Waiter> waiters_;
    TaskSweep sweep_;
    bool is_stopped_ = false;
};

}  // namespace pyprof
