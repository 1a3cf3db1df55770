// SPDX-License-Identifier: Apache-2.0
//
// All tasks of a process in one look: what each is, what its coroutines stand at, for what it waits and who
// waits for it. The target runs on meanwhile, so each task is believed only if every byte that was read for it
// stood there at one moment (PageCache); else it is read again by itself, and then counted as torn.
#pragma once

#include "python/asyncio_layouts.h"
#include "python/asyncio_modules.h"
#include "python/awaiters.h"
#include "python/coroutines.h"
#include "python/interpreters.h"
#include "python/object_kinds.h"
#include "python/task_graph.h"
#include "python/task_names.h"
#include "target/page_cache.h"

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pyprof {

struct AsyncTask {
    Address address{};
    Address coroutine{};
    Address loop{};
    Address interpreter{};
    Address thread{};          // state of the thread whose running loop is this task's; null: it does not run
    TaskState state = TaskState::kWaiting;
    bool has_begun = true;
    bool is_of_look = true;    // read as it was at the look's one moment; false: some microseconds later, by itself
    bool is_python = false;    // asyncio.tasks._PyTask
    bool is_current = false;   // the thread says that this one runs (3.14 on)
    Address waits_for{};       // its fut_waiter; null where there is none
    ObjectKind waits_for_kind = ObjectKind::kNone;
    StringId waits_for_type = kNoString;  // "Future", "_GatheringFuture", ...
    TaskName name;
    StringId coroutine_name = kNoString;  // qualified
    // Its coroutines, leaf first, as a Walk has frames: in TaskSweep::frames.
    std::uint32_t first_frame = 0;
    std::uint32_t frame_count = 0;
    CoroutineChain::End end = CoroutineChain::End::kAwaitable;
    Address awaited{};         // what the leaf awaits; often `waits_for`
    ObjectKind awaited_kind = ObjectKind::kNone;
    StringId awaited_type = kNoString;
};

// A loop that runs in a thread.
struct RunningLoop {
    Address thread{};
    Address loop{};
    Address running_task{};  // 3.14 on; null between two steps
    std::uint64_t context_version = 0;  // grows with every callback that the loop calls (0: not known)
};

struct TaskSweep {
    std::vector<AsyncTask> tasks;
    std::vector<RawFrame> frames;
    std::vector<TaskEdge> edges;
    std::vector<std::uint64_t> order;  // of each task, for TaskGraph: its address
    std::vector<RunningLoop> loops;
    std::uint32_t torn = 0;           // tasks that did not hold still, and are left out
    std::uint32_t broken_lists = 0;   // task lists that could not be read to their end

    [[nodiscard]] std::span<const RawFrame> frames_of(const AsyncTask& task) const {
        return std::span(frames).subspan(task.first_frame, task.frame_count);
    }
    void clear();
};

class AsyncioReader {
public:
    // `stacks` keeps names. All must outlive the reader.
    AsyncioReader(Target& target, const Layout& layout, StackTable& stacks);
    ~AsyncioReader();

    // Looks for asyncio in those interpreters where it was not found before; reads files the first time that
    // it is found (so: not while the target is stopped). True: some interpreter has it, sweep() is worth it.
    bool find(std::span<const InterpreterState> interpreters);
    [[nodiscard]] bool is_found() const { return !interpreters_.empty(); }
    // Why tasks can't be read although asyncio is there; empty else.
    [[nodiscard]] const std::string& problem() const { return problem_; }

    // `is_stopped`: nothing moves, so nothing is compared and nothing is refused.
    void sweep(const ThreadList& threads, bool is_stopped, TaskSweep& sweep);

    [[nodiscard]] const AsyncioLayout& asyncio_layout() const { return asyncio_; }

private:
    struct Interpreter;
    struct Found;  // one task as it was read, before edges are resolved

    void add_interpreter(Address interpreter);
    void read_loops(const ThreadList& threads, TaskSweep& sweep);
    [[nodiscard]] Address running_loop_of_dict(Address thread);
    void list_tasks(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep);
    template <class Read>
    bool read_whole(Read&& read);
    bool list_linked(Address head, Address owner);
    bool list_set(Interpreter& interpreter, Address set, bool is_weak);
    void read_tasks(Interpreter& interpreter, TaskSweep& sweep);
    bool read_task(Interpreter& interpreter, Address address, ObjectKind kind, TaskSweep& sweep, Found& found);
    bool read_c_task(Interpreter& interpreter, AsyncTask& task, Found& found);
    bool read_python_task(Interpreter& interpreter, AsyncTask& task, Found& found);
    [[nodiscard]] bool is_pending_python(Address future);
    [[nodiscard]] bool is_done(Address future, ObjectKind kind);
    bool set_state(AsyncTask& task, const CoroutineChain& chain);
    StringId type_text(Interpreter& interpreter, Address object);
    void resolve_edges(TaskSweep& sweep);

    Target* target_;
    const Layout* layout_;
    StackTable* stacks_;
    AsyncioLayout asyncio_;
    bool has_layout_ = false;
    std::string problem_;
    PageCache pages_;
    TaskNames names_;
    std::vector<std::unique_ptr<Interpreter>> interpreters_;
    bool is_stopped_ = false;
    bool is_of_look_ = true;  // what read_whole() read last
    std::uint32_t looks_ = 0;

    // Of one sweep.
    std::vector<Address> listed_;
    tsl::robin_map<std::uint64_t, TaskIndex> index_;  // of the tasks of the sweep
    std::vector<std::vector<FoundAwaiter>> awaiters_;
    std::vector<std::byte> task_bytes_;
    CoroutineChain chain_;
};

}  // namespace pyprof
