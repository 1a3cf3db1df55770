// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a process: what each is, what its coroutines stand at, for what it waits and who waits for it.
// The target runs on meanwhile. A loop counts each callback that it calls in its thread's context_ver, and only a
// callback moves a task; so what was copied while that counter stood still is of one moment, and nothing else
// is believed (look(), read_path()). sweep() serves whoever stops the target, or wants each task once.
#pragma once

#include "python/asyncio_layouts.h"
#include "python/asyncio_modules.h"
#include "python/awaiters.h"
#include "python/coroutines.h"
#include "python/executor_work.h"
#include "python/gevent_greenlets.h"
#include "python/interpreters.h"
#include "python/object_kinds.h"
#include "python/task_graph.h"
#include "python/task_holders.h"
#include "python/task_names.h"
#include "python/trio_tasks.h"
#include "target/page_cache.h"

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
    bool is_listed = true;     // false: here only for those that it awaits; it stands for itself elsewhere, or is done
    std::uint32_t moment = 0;  // tasks of one moment of a look were all so at once; edges are within a moment
    bool is_python = false;    // asyncio.tasks._PyTask, or one of trio
    bool is_greenlet = false;  // of gevent; then `coroutine` is greenlet's own part of it, and its frames are a stack
    bool is_main_greenlet = false;  // of its thread: its frames are the thread's from the root on
    std::uint64_t identity = 0;  // what no other task at this address had or will have, as far as is known; 0: nothing is
    bool is_loops_own = false; // what the loop runs for: no task has made it
    bool is_current = false;   // the thread says that this one runs (3.14 on)
    Address context{};         // its own, as long as it lives; null where it is not known
    Address origin{};          // its coroutine's note of where it was made; null: none, or its loop runs for it
    Address waits_for{};       // its fut_waiter, or the nursery whose tasks it waits for; null where there is none
    Address fills{};           // future of concurrent.futures that its end fills, for which a thread may wait; null: none
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
    bool is_still = false;              // it called none while its tasks were copied
    bool is_trios = false;              // `loop` is a Runner
    bool is_hub = false;                // `loop` is a Hub of gevent
};

// What a thread of a pool does, and the task that waits for it.
struct TaskWork {
    Address thread{};
    Address item{};    // that the thread's frame holds
    Address future{};  // that it is to fill
    Address task{};
    Address through{};  // the future of asyncio by which the task will be woken
    friend bool operator==(const TaskWork&, const TaskWork&) = default;
};

struct TaskSweep {
    std::vector<AsyncTask> tasks;
    std::vector<RawFrame> frames;
    std::vector<TaskEdge> edges;
    std::vector<std::uint64_t> order;  // of each task, for TaskGraph: its address
    std::vector<RunningLoop> loops;
    std::uint32_t moments = 1;
    std::uint32_t torn = 0;           // tasks that did not hold still, and are left out
    std::vector<Address> torn_tasks;  // ... of a look
    std::uint32_t broken_lists = 0;   // task lists that could not be read to their end
    bool was_held = false;            // threads were held for a copy
    std::chrono::nanoseconds searched{0};  // processor time, for who holds what: that has a budget of its own
    std::chrono::nanoseconds search_again{0};  // CLOCK_MONOTONIC, from when on a look may tell who holds what; 0: nothing is open

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

    // The loops that run in these threads, as they are found now; look() and read_path() watch them.
    [[nodiscard]] const std::vector<RunningLoop>& find_loops(const ThreadList& threads);
    [[nodiscard]] const std::vector<RunningLoop>& loops() const { return watched_; }
    // Calls `copy` while the thread is held, and returns true; or does neither.
    using Hold = std::function<bool(Address thread, const std::function<void()>& copy)>;
    // All tasks, each with all above it as they were at one moment. While its loop moves, tasks are read a few at a
    // time, and the sweep holds an awaiter once for each such moment. Of a loop that steps faster than the tasks
    // can be copied they are read while `hold` (which may be empty) holds its thread. What never held still is
    // counted as torn.
    void look(const ThreadList& threads, TaskSweep& sweep, const Hold& hold);
    // Whether look() is to tell who holds tasks that nobody awaits.
    void want_holders(bool wants) { wants_holders_ = wants; }
    // One task and all above it; its index, or nothing where it did not hold still or is no task (any more). The
    // sweep's loops say what they had counted at that moment.
    std::optional<TaskIndex> read_path(Address task, Address interpreter, TaskSweep& sweep);
    // What the thread's frame calls work for, as it stands there now; nothing where no task of this interpreter waits
    // for it. To be believed as far as the task, read at a moment, waits for just that future. `loops` say what they had
    // counted meanwhile.
    std::optional<TaskWork> find_work(const WorkerFrame& worker, Address interpreter, std::vector<RunningLoop>& loops);
    // The loop that runs in a thread; null: none that is watched.
    [[nodiscard]] const RunningLoop* loop_of(Address thread) const;
    // Whether the interpreter has greenlets at all, and whether one was seen within a task of that loop.
    [[nodiscard]] bool has_greenlets(Address interpreter) const;
    [[nodiscard]] bool knows_greenlets(const RunningLoop& loop, Address interpreter) const;
    // What stands below a greenlet to which a task has switched, and which runs in the thread of that loop now: the frames
    // of the thread's main greenlet, leaf first, as they were all the time since the thread had counted `version` (0: the target
    // stands). False: there is none that is known, or the thread has moved on.
    [[nodiscard]] bool read_callers(const RunningLoop& loop, Address interpreter, std::uint64_t version, std::vector<RawFrame>& frames);
    // Greenlets that are suspended between two coroutines that execute, by which the outer one calls the inner one. `frames`
    // are those of coroutines, outermost first. False: the thread has moved on since it had counted `version`.
    struct Between {
        std::size_t inner = 0;         // which of `frames` it calls
        std::vector<RawFrame> frames;  // leaf first
    };
    bool read_between(const RunningLoop& loop, Address interpreter, std::uint64_t version, std::span<const RawFrame> frames,
                      std::vector<Between>& found);
    // The task of which a loop says that it is in its step; a hint, as of no certain moment.
    [[nodiscard]] Address current_task(const RunningLoop& loop, Address interpreter);

    // `is_stopped`: nothing moves, so nothing is compared and nothing is refused.
    void sweep(const ThreadList& threads, bool is_stopped, TaskSweep& sweep);

    [[nodiscard]] const AsyncioLayout& asyncio_layout() const { return asyncio_; }

private:
    struct Interpreter;
    struct Found;  // one task as it was read, before edges are resolved
    struct Node;   // one task of the moment that is being read

    [[nodiscard]] Interpreter* interpreter_at(Address address) const;  // null: not known
    void add_interpreter(Address interpreter);
    void add_trio(Interpreter& interpreter);
    [[nodiscard]] std::uint64_t read_context_version(Address thread);  // 0 where there is none
    [[nodiscard]] RunningLoop running_in(Address thread, Address loop);
    void read_loops(const ThreadList& threads, std::vector<RunningLoop>& loops);
    [[nodiscard]] Address running_loop_of_dict(Address thread);
    template <class Find>
    void find_runs(const ThreadList& threads, std::vector<LoopRun>& runs, Find&& find);
    void find_runs_by_frames(const ThreadList& threads);
    // src/python/asyncio_greenlets.cpp
    void find_greenlets(Interpreter& interpreter, const InterpreterState& state);
    void find_new_greenlets(Interpreter& interpreter, const ThreadList& threads);
    void walk_objects(Interpreter& interpreter, const InterpreterState& state, std::size_t most);
    void find_hubs(Interpreter& interpreter);
    void add_hubs(const ThreadList& threads, std::vector<RunningLoop>& loops);
    void find_waits(Interpreter& interpreter);
    void find_callbacks(Interpreter& interpreter);
    [[nodiscard]] bool is_due(Interpreter& interpreter, Address greenlet);
    void set_wait(Interpreter& interpreter, AsyncTask& task, Address object);
    bool read_greenlet(Interpreter& interpreter, Found& found);
    void take_edges(const GeventGreenlet& kept, Found& found);
    void read_names(Interpreter& interpreter, AsyncTask& task);
    // src/python/asyncio_callers.cpp
    void note_main_greenlet(Interpreter& interpreter, const AsyncTask& task, Address main) const;
    [[nodiscard]] Address main_greenlet_of(const RunningLoop& loop, Address interpreter) const;
    template <class Read>
    bool read_unmoved(const RunningLoop& loop, std::uint64_t version, Read&& read);

    void list_tasks(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep);
    template <class Read>
    bool read_whole(Read&& read);
    bool list_linked(Address head, Address owner);
    bool list_set(Interpreter& interpreter, Address set, bool is_weak);
    void read_tasks(Interpreter& interpreter, TaskSweep& sweep);
    void resolve_edges(TaskSweep& sweep);
    // src/python/asyncio_holders.cpp
    void find_holders(TaskSweep& sweep);
    void add_holders(Interpreter& interpreter, TaskSweep& sweep, TaskIndex first);
    void search_holders(Interpreter& interpreter, TaskSweep& sweep, TaskIndex first, const std::vector<TaskIndex>& wanted);
    [[nodiscard]] bool is_claim_alone(const FoundAwaiter& awaiter) const;

    // src/python/asyncio_one_task.cpp
    bool read_task(Interpreter& interpreter, Address address, ObjectKind kind, Found& found);
    bool read_c_task(Interpreter& interpreter, AsyncTask& task, Found& found);
    bool read_python_task(Interpreter& interpreter, AsyncTask& task, Found& found);
    bool read_task_of_trio(Interpreter& interpreter, Found& found);
    [[nodiscard]] bool is_pending_python(Address future);
    [[nodiscard]] bool is_done(Address future, ObjectKind kind);
    bool set_state(AsyncTask& task, const CoroutineChain& chain);
    void read_texts(Interpreter& interpreter, AsyncTask& task);
    StringId type_text(Interpreter& interpreter, Address object);

    template <class Read>
    void read_known_pages(Address key, Read&& read);
    // src/python/asyncio_looks.cpp
    void forget_now_and_then();
    void watch(const std::vector<RunningLoop>& loops);
    [[nodiscard]] bool is_watched(const std::vector<RunningLoop>& loops) const;
    void take_counters(std::vector<RunningLoop>& loops) const;
    void begin_moment();
    std::uint32_t node_of(Interpreter& interpreter, Address address);
    void judge(Node& node, ObjectKind kind, bool makes_sense) const;
    [[nodiscard]] std::uint32_t depth_of_group(Interpreter& interpreter, std::uint32_t node, std::uint32_t above, Address group);
    void connect_nodes(Interpreter& interpreter);
    void spread_doubt();
    void keep_nodes(TaskSweep& sweep);
    void learn_pages(std::uint32_t node);
    void look_at(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep);
    void learn_from_whole(Interpreter& interpreter);
    void read_parts(Interpreter& interpreter, TaskSweep& sweep, bool can_hold);
    void read_parts_of(std::size_t size, std::size_t most_in_vain, std::size_t& in_vain, Interpreter& interpreter, TaskSweep& sweep);
    void read_held(Interpreter& interpreter, const ThreadList& threads, TaskSweep& sweep, const Hold& hold);
    void read_until_still(Interpreter& interpreter, std::span<const Address> starts, TaskSweep& sweep);
    void read_part(Interpreter& interpreter, std::span<const Address> starts, TaskSweep& sweep, std::vector<Address>& left);

    Target* target_;
    const Layout* layout_;
    StackTable* stacks_;
    AsyncioLayout asyncio_;
    bool has_layout_ = false;
    std::string problem_;
    PageCache whole_;  // all pages that looks use
    PageCache part_;   // those of a few tasks
    PageCache* pages_ = &whole_;  // which of them is read
    TaskNames names_;
    std::vector<std::unique_ptr<Interpreter>> interpreters_;
    std::vector<LoopRun> trio_runs_, python_runs_;
    bool is_stopped_ = false;
    bool is_single_ = false;  // pages are copied once: a list that makes sense is taken
    std::uint32_t looks_ = 0;
    bool wants_holders_ = false;
    bool is_too_fast_ = false;  // parts were read in vain: the next look does not try them again
    std::vector<RunningLoop> watched_;
    tsl::robin_map<std::uint64_t, std::vector<std::uint64_t>> paths_pages_;  // by task: where its path stood last

    // Of one sweep.
    std::vector<Address> listed_;
    tsl::robin_set<std::uint64_t> seen_;
    tsl::robin_map<std::uint64_t, TaskIndex> index_;  // of the tasks of the sweep
    std::vector<std::vector<FoundAwaiter>> awaiters_;
    std::vector<std::byte> task_bytes_;
    CoroutineChain chain_;
    FoundWork work_;

    // Of one moment.
    std::vector<Node> nodes_;
    std::size_t node_count_ = 0;
    bool wants_pages_ = false;  // nodes note where they stand
    std::vector<Address> left_;  // tasks that are still to be read
    std::vector<Address> open_, again_;  // of one part
    std::vector<TaskEdge> edges_;  // between nodes
    struct GroupDepth {
        std::uint32_t node = 0;
        Address group{};
        std::uint32_t depth = 1;
    };
    GroupDepth group_;  // that was found last
    std::vector<std::uint32_t> open_nodes_;
    std::vector<std::uint64_t> numbers_;
};

}  // namespace pyprof
