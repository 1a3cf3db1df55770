// SPDX-License-Identifier: Apache-2.0
//
// Asyncio (and trio, and gevent) within a tick: puts the tasks that wait for what runs in a loop's thread above it, for which it reads that
// task and those above it alone; where every task is wanted it looks at all when a loop has moved, and records
// those that wait. A path is shown only if it was read as of one moment and belongs to the sample; else the
// thread's own stack is, and counted as unlinked. Threads without a loop cost nothing here.
#pragma once

#include "python/asyncio_tasks.h"
#include "sample/async_stacks.h"
#include "sample/epoch.h"
#include "sample/thread_reader.h"

#include <pyprof/target.h>

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace pyprof {

enum class AsyncMode : std::uint8_t {
    kOff,
    kRunning,  // tasks that run, under those that wait for them
    kAll,      // and those that wait, too
};
enum class AsyncWeight : std::uint8_t {
    kTask,   // one sample a leaf task and tick: the sum is task-seconds
    kShare,  // one sample a loop and tick, of a leaf drawn at random: the sum is wall time
};

struct AsyncOptions {
    AsyncMode mode = AsyncMode::kOff;
    AsyncWeight weight = AsyncWeight::kTask;
    bool full_loop_frames = false;
    bool with_inferred = true;
    bool with_origins = false;  // where tasks were made, if the interpreter notes it
    std::uint32_t most_leaves = 200;  // of a loop and tick; more are drawn from, and weigh as much as all
};

class AsyncSampler {
public:
    AsyncSampler(Target& target, const Layout& layout, StackTable& stacks, CodeCache& codes, StackBuilder& builder,
                 Epoch& epoch, const AsyncOptions& options);

    // How a loop's thread may be held for one copy; without it a loop that steps too fast shows no waiting tasks.
    void set_hold(AsyncioReader::Hold hold) { hold_ = std::move(hold); }
    // Whether a thread has slept on since it was seen to sleep.
    using SleepsOn = std::function<bool(Address thread)>;
    void set_sleeps_on(SleepsOn sleeps_on) { sleeps_on_ = std::move(sleeps_on); }
    // The threads as they were listed anew.
    void set_threads(const ThreadList& threads);
    [[nodiscard]] bool is_found() const { return reader_.is_found(); }
    // Whether the thread ran a loop when tasks were looked at last.
    [[nodiscard]] bool has_loop(Address thread) const { return find_loop(thread) != nullptr; }
    // Whether an idle thread's tasks are wanted.
    [[nodiscard]] bool wants_idle(Address thread) const { return options_.mode == AsyncMode::kAll && has_loop(thread); }

    void begin_tick(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    // The sample of a thread that runs a loop: its stack below its tasks, or nothing where it stays as it is.
    // `context_version` is the thread's as of the sample, 0 where it was not read.
    struct Spliced {
        AsyncStacks::Place place;
        bool is_inferred = false;
    };
    // The node of steps [begin, end) of the chain on top of another, with what else stands among them: native frames.
    using PlaceSteps = std::function<StackId(StackId below, std::size_t begin, std::size_t end)>;
    std::optional<Spliced> splice(Address thread, StackBuilder::Chain& chain, std::uint64_t context_version,
                                  const PlaceSteps& place_steps = {});
    // Of a loop's thread that was seen to wait for events, and has not run since its chain was copied: its frames end at
    // the loop.
    void learn_idle_stem(Address thread, const StackBuilder::Chain& chain, const PlaceSteps& place_steps = {});
    // Threads of pools (async_workers.cpp). Whether this one does work that somebody gave to it; if so it is noted
    // for the tick.
    bool note_worker(Address thread, const StackBuilder::Chain& chain, ThreadReader& reader);
    [[nodiscard]] bool is_worker(Address thread) const;
    // The sample of such a thread below the task that gave it the work.
    std::optional<Spliced> splice_worker(Address thread, const StackBuilder::Chain& chain);
    // Threads that wait for a task (async_threads.cpp). Whether those that sleep are wanted, though they run no loop.
    [[nodiscard]] bool wants_sleepers() const;
    // Such a thread, which was seen to sleep in this tick, before its chain was copied.
    void note_sleeper(Address thread, const StackBuilder::Chain& chain);
    // Of all others those that were not still asleep are forgotten.
    void forget_woken(const std::function<bool(Address thread)>& is_still_asleep);
    // Whether the stack of an idle loop is wanted, below which the work of others is to stand.
    [[nodiscard]] bool needs_stem(Address thread) const;
    // A sample of a loop's thread that has no chain of frames.
    void note_unlinked() { ++unlinked_; }
    // Whether this stack of a loop's thread is that of a loop that waits for its next event: there is nothing else to see.
    [[nodiscard]] bool is_at_rest(Address thread, const StackBuilder::Chain& chain) const;
    // async_waiting.cpp. After all samples of the tick: the waiting tasks of a thread's loop. `is_still`: it did not run since the
    // last tick; `has_own`: this tick has a sample of the thread itself. False: it has no tasks, or the thread's own
    // stack is not known yet.
    bool record_waiting(Address thread, ThreadIndex index, bool is_still, bool has_own);
    // By shares: the tick has a sample of the thread itself after all.
    void note_paid(Address thread);

    // At the end: what was found last stands for the ticks since, too.
    void flush(Address thread, ThreadIndex index);

    // Code entries were dropped: nothing may be remembered by them.
    void forget_codes();
    // Where callbacks that a thread's loop calls are counted; absent where not known.
    [[nodiscard]] Offset context_version_offset() const { return reader_.asyncio_layout().thread.context_version; }
    void add_figures(RunFigures& figures) const;

private:
    struct View {  // of a task that a path went over
        Address coroutine{};
        StringId given = kNoString;
        std::uint64_t identity = 0;  // by which a task is known from a later one at the same address
        Address context{}, note{};      // ... as far as those can tell it, too, where it has a name of its own
        std::uint32_t alive_at = 0;     // the last look in which it was there
        StackBuilder::Chain chain;
        StringId label = kNoString;
        StringId wrapped = kNoString;   // if its own coroutine is uvloop's: that which it awaits
        std::uint32_t running_turn = 0, waiting_turn = 0;  // which of its paths is shown next
        AsyncStacks::Place parent;  // where its boundary stood last below another task
        bool has_parent = false;
        Address origin_note{};          // the note that was read into `origin`
        std::vector<FrameId> origin;    // what made it, outermost first
        std::uint32_t origin_read = 0;  // reading
        std::uint32_t seen = 0;     // reading
        TaskIndex index = 0;        // in that reading
    };
    struct Owner {  // of a root frame: the task whose coroutine it belongs to
        Address task{};
        std::uint64_t identity = 0;
        std::uint64_t first_turn = 0;  // in which it was seen first
        bool was_suspended = false;    // it is past its first step, which whoever makes an eager task calls
    };
    struct Between {  // a greenlet between two coroutines that execute
        std::size_t inner = 0;  // which of the coroutines it calls
        StackBuilder::Chain chain;
    };
    struct Sleeper {  // waits for a future of concurrent.futures
        Address thread{}, future{};
        AsyncStacks::Place place;     // its frames, down to the one that waits
        std::uint64_t noted_turn = 0;
    };
    struct Reading {  // tasks as they were read together
        TaskSweep sweep;
        TaskGraph graph;
        std::uint32_t serial = 0;
    };
    struct Loop {
        Address thread{};
        Address interpreter{};
        AsyncStacks::Place stem;  // the thread's own frames down to the loop's
        bool has_stem = false;
        std::size_t stem_length = 0;      // frames; the outermost and the innermost of them:
        RawFrame stem_root, stem_leaf;
        bool is_hub = false;      // of gevent
        bool is_stem_wanted = false;  // tasks of another loop are to stand below it
        bool is_current = false;  // its tasks were looked at since its thread fell asleep
        std::vector<Address> shown;         // tasks that this tick's own sample of the thread shows
        std::chrono::nanoseconds owed{0};   // time that the next record of waiting tasks stands for
        std::uint32_t owed_ticks = 0;
        std::uint32_t paused_ticks = 0;     // of those, within a pause
        std::uint32_t poor_looks = 0;       // in a row, that found less than they missed
        Reading path;                 // the task that ran last, and those above it
        std::uint64_t version = 0;    // what the loop had counted in the step in which it ran; 0: not known
        Address root_frame{};         // of that task
        TaskIndex root = 0;
        Address current{};            // the task of which the loop said then that it is in its step
        StackBuilder::Chain callers;  // of a greenlet that a task has switched to
        std::uint64_t callers_version = 0;  // what the loop had counted then; 0: none are known
        std::vector<Between> between;       // of the task that ran last
        std::vector<RawFrame> coroutines;   // ... those that executed, outermost first
        std::uint64_t between_version = 0;
    };
    struct Worker {  // a thread of a pool, as of this tick's sample
        WorkerFrame frame;
        Address item{};         // that its frame held then; null where that is not known
        std::size_t first = 0;  // step where its chain goes on behind the pool's machinery
    };
    struct KnownWork {  // of a thread, as it was found last
        TaskWork work;
        Address coroutine{};
        std::uint64_t number = 0;
        std::uint64_t version = 0;  // what the task's loop had counted
    };
    struct Waiting {
        AsyncStacks::Place place;
        std::uint32_t samples = 0;
    };
    struct Root {  // where in a thread's chain a task begins
        std::size_t step = 0;
        StringId label = kNoString;
    };
    [[nodiscard]] const Loop* find_loop(Address thread) const;
    [[nodiscard]] Loop* find_loop(Address thread);
    void add_loops(const std::vector<RunningLoop>& running);
    void look();
    void learn_tasks();
    void find_candidates();
    void cover_above_torn();
    void forget_ended(const std::vector<RunningLoop>& running);
    void remember(Reading& reading);
    void note_alive();
    AsyncStacks::Place add_steps(AsyncStacks::Place place, const StackBuilder::Chain& chain, std::size_t begin,
                                 std::size_t end, const PlaceSteps& place_steps);
    // async_stem.cpp
    struct Fold {  // where the loop begins in a thread's chain: steps from there on are machinery, up to where a task begins
        enum class Kind : std::uint8_t {
            kTurn,     // the frame of the loop's turn stands there
            kTrio,
            kEntry,    // that of what runs the loop stands before it
            kUnknown,  // nothing says so: it is the chain's end
        };
        std::size_t step = 0;
        Kind kind = Kind::kUnknown;
    };
    void intern_loops_names();
    [[nodiscard]] bool is_turn(const CodeCache::Entry& entry) const;
    [[nodiscard]] bool is_entry(const CodeCache::Entry& entry) const;
    [[nodiscard]] bool is_trios_own(const CodeCache::Entry& entry) const;
    [[nodiscard]] StringId wrapped_by(const StackBuilder::Chain& chain, std::size_t step) const;
    [[nodiscard]] Fold fold_of(const StackBuilder::Chain& chain) const;
    [[nodiscard]] bool has_generator(const StackBuilder::Chain& chain) const;
    void learn_stem(Loop& loop, const StackBuilder::Chain& chain, std::size_t fold, bool with_turn, const PlaceSteps& place_steps);
    [[nodiscard]] static bool is_foreign(const Loop& loop, const StackBuilder::Chain& chain);
    [[nodiscard]] static bool has_stem(const Loop& loop, const StackBuilder::Chain& chain);
    void note_stem(Loop& loop, const StackBuilder::Chain& chain, const Fold& fold, const PlaceSteps& place_steps);
    [[nodiscard]] bool is_stepped_by_loop(const RawFrame& root_frame) const;
    std::optional<std::size_t> find_root_step(Loop& loop, const StackBuilder::Chain& chain, std::size_t first,
                                              bool is_below_loop, std::uint64_t version);
    View* view_of(const Reading& reading, TaskIndex task);
    [[nodiscard]] bool frames_still_stand(const StackBuilder::Chain& chain);
    AsyncStacks::Place add_boundary(AsyncStacks::Place place, StringId label);
    // Its coroutines from the outermost on, down to the `end`-th; one at least. Uvloop's own is left out.
    AsyncStacks::Place add_frames(AsyncStacks::Place place, const View& view, std::size_t end);
    // The boundary of a task; none for a thread's main greenlet, whose frames are the thread's own.
    AsyncStacks::Place add_task(AsyncStacks::Place place, const AsyncTask& task, const View& view);
    [[nodiscard]] bool has_origin(const Reading& reading, TaskIndex task, View& view);  // async_creation.cpp
    AsyncStacks::Place add_origin(AsyncStacks::Place place, const View& view);
    [[nodiscard]] const TaskEdge* edge_between(const TaskGraph& graph, TaskIndex task, TaskIndex awaiter) const;
    struct Path {
        AsyncStacks::Place place;
        bool is_inferred = false;
    };
    [[nodiscard]] const Sleeper* sleeper_for(const AsyncTask& task) const;
    [[nodiscard]] std::optional<AsyncStacks::Place> stem_of(const AsyncTask& top, const AsyncTask& task, AsyncStacks::Place stem);
    std::optional<Path> place_below(AsyncStacks::Place stem, const Reading& reading, TaskIndex task);
    [[nodiscard]] bool was_known(const AsyncTask& task, Address root_frame) const;
    bool read_task_of(Loop& loop, Address task, const RawFrame& frame, std::uint64_t version, Reading& reading,
                      TaskIndex& index, bool& is_same_step);
    bool find_root(Loop& loop, const RawFrame& frame, std::uint64_t version);
    // async_greenlets.cpp
    [[nodiscard]] bool is_hubs_own(const StackBuilder::Chain& chain) const;
    [[nodiscard]] Address greenlet_seen_running(Address thread) const;
    // What an outermost frame that was seen on the thread is to a greenlet.
    enum class Bottom : std::uint8_t {
        kOwn,      // its own, and it ran
        kOther,    // its own, but another one ran
        kUnknown,
    };
    Bottom read_greenlet_of(Loop& loop, Address greenlet, const RawFrame& frame, std::uint64_t version);
    bool find_greenlet(Loop& loop, const RawFrame& frame, std::uint64_t version);
    void learn_bottom(const Loop& loop, const StackBuilder::Chain& chain);
    std::optional<Spliced> splice_greenlet(Address thread, const StackBuilder::Chain& chain, std::uint64_t version, const PlaceSteps& place_steps);

    // async_callers.cpp
    void find_between(Loop& loop, const StackBuilder::Chain& chain, std::size_t first, std::uint64_t version);
    AsyncStacks::Place add_running(Loop& loop, AsyncStacks::Place place, const StackBuilder::Chain& chain, std::size_t first,
                                   std::size_t begin, std::size_t end, const PlaceSteps& place_steps);
    bool build_as_read(StackBuilder::Chain& chain);
    bool find_callers(Loop& loop, std::uint64_t version);
    std::optional<Spliced> splice_switched(Address thread, const StackBuilder::Chain& chain, std::uint64_t version, const PlaceSteps& place_steps);

    std::optional<Spliced> splice_task(Loop& loop, const StackBuilder::Chain& chain, std::uint64_t version, const PlaceSteps& place_steps);
    void find_inner_roots(Loop& loop, const StackBuilder::Chain& chain, std::size_t first, std::uint64_t version);
    [[nodiscard]] Address item_in_copy(const WorkerFrame& worker, ThreadReader& reader);
    [[nodiscard]] bool is_sure_work(const Worker& worker, const KnownWork& before, const KnownWork& now, std::uint64_t version) const;
    [[nodiscard]] std::string boundary_text(const AsyncTask& task, StringId wrapped) const;
    // async_waiting.cpp
    void draw_leaves(const Loop& loop, std::vector<std::pair<TaskIndex, std::uint32_t>>& drawn);
    std::uint32_t place_waiting(const Loop& loop);

    Target& target_;
    Memory& memory_;
    const Layout& layout_;
    FrameShape shape_;
    StackTable& stacks_;
    CodeCache& codes_;
    StackBuilder& builder_;
    Epoch& epoch_;
    AsyncOptions options_;
    AsyncioReader reader_;
    AsyncStacks trie_;
    ThreadList threads_;
    Reading all_;
    Reading inner_;
    Reading given_;  // the task that a thread of a pool works for
    TaskGraph::Path path_;
    std::vector<Loop> loops_;
    tsl::robin_map<std::uint64_t, View> views_;    // by task
    tsl::robin_map<std::uint64_t, Owner> owners_;  // by the frame of a task's own coroutine
    tsl::robin_set<std::uint64_t> covered_;        // tasks that another one's path shows, in some moment of the look
    struct Wait {  // of one task for another, as it was seen last
        Address task{}, awaiter{}, through{};
    };
    std::vector<Wait> waits_, waits_before_;
    std::vector<TaskIndex> candidates_;            // tasks of the look that stand for themselves
    std::vector<std::pair<TaskIndex, std::uint32_t>> drawn_;
    std::vector<Waiting> waiting_;
    std::vector<Root> roots_;
    std::vector<RawFrame> coroutines_;
    std::vector<AsyncioReader::Between> between_;
    std::vector<Worker> workers_;  // of this tick
    tsl::robin_map<std::uint64_t, KnownWork> known_work_;  // by thread
    std::vector<RunningLoop> work_loops_;
    std::vector<Sleeper> sleepers_;
    SleepsOn sleeps_on_;
    std::uint64_t filling_turn_ = 0;  // in which a task was read last for which a thread may wait; 0: never
    Address anyio_run_{};           // code of anyio's WorkerThread.run
    std::size_t anyio_future_ = 0;  // which of its variables holds the future
    Walk walk_;
    std::minstd_rand random_{1};
    std::vector<StringId> turn_names_, entry_names_;  // async_stem.cpp
    StringId wrapper_names_[2];
    StringId trio_names_[3];
    StringId worker_names_[3];

    std::chrono::nanoseconds now_{0};
    std::chrono::nanoseconds start_{-1};
    std::chrono::nanoseconds weight_{0};
    std::chrono::nanoseconds next_look_{0};
    std::chrono::nanoseconds next_find_{0};
    AsyncioReader::Hold hold_;
    bool is_fresh_ = false;      // looked at in this tick
    bool must_look_again_ = false;  // though nothing moves: what was read once is to be read twice
    bool is_last_ = false;       // no look will follow
    std::uint32_t looks_ = 0;
    std::uint32_t last_whole_look_ = 0;  // that missed no task
    std::uint32_t readings_ = 0;  // looks, and paths by themselves
    std::uint64_t turn_ = 0;
    std::uint64_t torn_turn_ = 0;  // in which what was missed was counted last
    std::uint64_t unlinked_ = 0;
    std::uint64_t torn_ = 0;
    std::uint64_t task_samples_ = 0;
    std::uint64_t inferred_ = 0;
    std::uint64_t most_tasks_ = 0;
};

}  // namespace pyprof
