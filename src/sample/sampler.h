// SPDX-License-Identifier: Apache-2.0
//
// One tick of one process: which threads to look at, one vectored read for all of them, a stack for
// each, and what became of it. The sampler owns everything that touches the target and allocates
// nothing once warm. It writes stacks and paths to the StackTable and records to a sink; it knows
// nothing of profiles, files or screens.
#pragma once

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include "python/code_cache.h"
#include "python/python_process.h"
#include "python/thread_names.h"
#include "sample/async_sampler.h"
#include "sample/call_sites.h"
#include "sample/epoch.h"
#include "sample/gil_turn.h"
#include "sample/hold_budget.h"
#include "sample/look_budget.h"
#include "sample/mend.h"
#include "sample/native_stacks.h"
#include "sample/proof.h"
#include "sample/read_pace.h"
#include "sample/stop_budget.h"
#include "sample/thread_reader.h"
#include "sample/triage.h"
#include "target/ptrace_stop.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace pyprof {

enum class WhichThreads : std::uint8_t {
    kRunning,    // on a processor or ready to run
    kAll,        // sleepers, GIL waiters and disk waits, too
    kGilHolder,  // the one that holds the GIL
};
// "running", "all", "GIL-holding": of which threads the samples are.
const char* name_of(WhichThreads which);

struct SamplerOptions {
    double rate_hz = 100;  // 0: as fast as can be
    WhichThreads which = WhichThreads::kRunning;
    bool with_lines = true;
    bool gc_marker = true;
    AsyncOptions async;
    // Up to 3.13: code objects that were read later than this after the frames that refer to them may not be theirs. As
    // much again for each ten that were read.
    std::chrono::nanoseconds name_within = std::chrono::microseconds(250);
    // Copies that took no longer than this, or no longer than is usual, are of one moment: between the first and the last
    // of them nothing happened twice that would look as if nothing had. Those of all chains of a thread of several
    // interpreters are so only within this.
    std::chrono::nanoseconds one_moment = std::chrono::microseconds(20);
    NativeAddresses* natives = nullptr;  // with native frames, noted there; it must outlive the sampler
};

class Sampler {
public:
    struct Sink {
        virtual ~Sink() = default;
        virtual void add_thread(const ProfiledThread& thread) = 0;  // gets the next ThreadIndex
        virtual void name_thread(ThreadIndex thread, const std::string& name) = 0;  // it has got another one
        virtual void add_sample(const SampleRecord& record) = 0;
    };

    // `stopper` proves paths that nothing else can prove, by short stops within their budget; without one
    // no thread is ever stopped.
    Sampler(Target& target, PythonProcess& process, StackTable& stacks, const SamplerOptions& options, Sink& sink,
            ThreadStopper* stopper = nullptr);

    // kHeldBack: nothing was looked at, since the target has been held for its share of the time; the weight is the next
    // tick's.
    enum class Outcome : std::uint8_t { kOk, kHeldBack, kTargetEnded };
    Outcome tick(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    // Between two ticks: lets go of threads that came to their stop too late. Returns when to ask again.
    std::chrono::nanoseconds settle();
    // Commits what still waits for its names to be checked.
    void finish(std::chrono::nanoseconds now);

    [[nodiscard]] bool has_sampled() const { return figures_.samples > 0; }
    // Of the sampler's own counts; elapsed, late and processor time are the caller's.
    [[nodiscard]] RunFigures figures() const;

private:
    struct Thread {
        Thread(const Layout& layout, const FrameShape& shape, const ThreadState& thread_state, pid_t tid)
            : state(thread_state), triage(tid), reader(layout, shape, thread_state.address) {
            reader.set_identity(thread_state.interpreter, thread_state.pthread);
        }
        ThreadState state;
        ThreadTriage triage;
        ThreadReader reader;
        StackBuilder::Chain chain;
        StackBuilder::Chain chain_other;  // of the earlier copy, or mended of one or both
        ThreadIndex index = 0;
        ThreadTriage::State seen = ThreadTriage::State::kUnknown;
        std::size_t first_range = 0;
        std::size_t range_count = 0;
        std::size_t first_ahead = 0;  // behind those of all threads: what is seldom there
        std::size_t ahead_count = 0;
        StackId last_stack = kRootStack;  // of the last sample, for reuse while blocked
        PathId last_names = kRootPath;
        PathId wanted = kRootPath;  // the last sample's path, as long as nothing has proved it; else the root
        bool has_last = false;
        bool has_nothing = false;  // was read since it blocked, and had nothing to show
        bool was_asked = false;    // since it blocked: whether it waits for a task
        bool holds_gil = false;
        bool is_named = false;  // by the program, not by the kernel
        GilTurn turn;           // before it was last looked at
        std::chrono::nanoseconds looked_at{0};
        Thread* runner = nullptr;  // whose kernel thread runs it, itself or who called into its interpreter; null: not known
        bool is_inner = false;     // of another interpreter than the main one
        bool is_registered = false;
        ThreadReader::Status status = ThreadReader::Status::kNoFrame;  // of its last read
        std::uint64_t planned_tick = 0;  // at which it was read last
        std::uint64_t sampled_tick = 0;  // of its last sample, but one that was reused
        std::uint64_t misses = 0;        // of its reader, before its last copy with a C stack
        bool shows_tasks_only = false;  // an idle loop, in whose place its tasks are shown
        bool was_late = false;          // what the plan lacked was read behind all else
        std::uint32_t doubt_samples = 0;     // samples for which to copy twice
        bool may_prove = false;              // the two copies are for proofs, not for callers' lines alone
        std::uint64_t samples = 0;
    };
    struct BareThread {  // one that has no Python state
        explicit BareThread(pid_t tid) : triage(tid) {}
        ThreadTriage triage;
        ThreadIndex index = 0;
        StackId last_stack = kRootStack;
        bool has_last = false;
    };
    struct Interpreter {
        InterpreterState state;
        ThreadNames names;
        Address gil{};
        GilFacts gil_facts;  // where it stands; for native frames
        std::vector<std::byte> slice;
        Address threads_head{};  // as of the last refresh
        bool has_slice = false;
    };
    struct CStack {
        Address begin{};
        Address end{};
        Thread* thread = nullptr;
    };
    struct Sampled {  // what one thread's read came to
        StackId stack = kRootStack;
        PathId path = kRootPath;
        PathId names = kRootPath;  // the codes whose names it shows
        bool is_truncated = false;
        bool is_known = false;  // its path is proved and its frames were read
        bool is_inferred = false;
        bool has_sure_names = false;
        bool is_leaf_alone = false;  // its callers may follow later; counted when the profile is made ready
        StackId sure_callers = kRootStack;  // of one whose path is not proved: those that stood there at its moment
        StackBuilder::Chain* chain = nullptr;  // the frames that it shows; none where they were not read
    };

    struct LoopSample {  // of a thread that runs a loop, or works for a task
        Thread* thread;
        Sampled sampled;
        bool is_native = false;  // its tasks are put above it by now, and a collection is marked
        bool is_spliced = false;
    };
    struct Chain {  // one of those of a thread that has called into another interpreter
        Thread* thread;
        Sampled sampled;
        Address entry{};
    };

    // Above this rate the target notices (docs/how-it-works.md).
    [[nodiscard]] bool is_fast() const { return disturbs_program(options_.rate_hz); }
    void refresh_threads();
    void place_turn_reader();
    void register_thread(Thread& thread);
    ThreadIndex index_of(Thread& thread);
    const std::string* program_name_of(Thread& thread);
    [[nodiscard]] const Thread* thread_of(Address thread_state) const;
    [[nodiscard]] bool wants_sleeper(const Thread& thread) const;
    [[nodiscard]] bool wants(const Thread& thread) const;
    void plan_read(std::chrono::nanoseconds when);
    void parse_interpreters();
    [[nodiscard]] bool is_vouched_for(const Thread& thread, std::chrono::nanoseconds when) const;
    void note_turn();
    void note_look(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds reuse_within);
    void take_woken(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void take_new(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void take_alone(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    [[nodiscard]] bool takes_natively(const Thread& thread) const;
    bool has_stack_to_show(Thread& thread, ThreadReader::Status status);
    void take_thread(Thread& thread, ThreadReader::Status status, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    Sampled assess(Thread& thread, const StackBuilder::Chain::Kept& most = {});
    void settle_lines(Thread& thread, const Walk& walk, StackBuilder::Chain& chain);
    [[nodiscard]] bool is_intact_leaf(const RawFrame& frame) const;
    std::optional<RawFrame> sure_leaf(Thread& thread);
    void infer_leaves();
    bool prove_by_copies(Thread& thread, const Walk& walk, StackBuilder::Chain& chain);
    [[nodiscard]] StackId sure_callers(const StackBuilder::Chain& chain, bool is_whole);
    bool prove_by_looks(Thread& thread);
    void prove_by_stop(Thread& thread);
    bool while_stopped(const Thread& runner, const std::function<void()>& work);
    bool hold(Address thread, const std::function<void()>& copy);
    void read_ranges() { read_all(memory_, ranges_, filled_); }
    static void append_ahead(std::vector<ReadRange>& ranges, ThreadReader::Ahead& ahead);
    void plan_look(Thread& thread, ThreadReader::Copies copies);
    std::span<const std::uint8_t> filled_of(const Thread& thread);
    void cover_version(Thread& thread) const;
    [[nodiscard]] std::uint64_t version_of(const Thread& thread) const;
    enum class Held : bool { kNo, kStopped };  // whether the thread was stopped all the while
    // src/sample/sampler_native.cpp
    void take_native_thread(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void take_frameless(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    [[nodiscard]] bool copies_c_stacks() const { return native_ != nullptr && stopper_ != nullptr; }  // of running threads, too
    std::optional<StackBuilder::Place> copy_native(Thread& thread);
    void list_native_chains(Thread& thread);
    void find_native_parts(Thread& thread);
    std::optional<StackBuilder::Place> build_native_parts(Held held);
    [[nodiscard]] bool has_other_loops(const NativeStacks::Joined& joined) const;
    void take_native_loop(Thread& thread, Sampled sampled, const AsyncSampler::PlaceSteps& place, std::size_t steps);
    bool copy_native_once(Thread& thread, bool finish_in_stop, std::optional<StackBuilder::Place>& python);
    void look_again(ThreadTriage& triage, ThreadTriage::State& seen, std::chrono::nanoseconds when);
    void note_stop(const StackCopier::Copied& copied);
    void refresh_bare_threads();
    void take_bare_threads(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    [[nodiscard]] std::string marker_of(const Thread& thread) const;
    void count_native(const NativeStacks::Joined& joined);
    // src/sample/sampler_chains.cpp
    void find_c_stacks();
    void notice_new_states();
    [[nodiscard]] Thread* named_runner(const Thread& thread) const;
    [[nodiscard]] Thread* living_runner(Thread& thread);
    [[nodiscard]] Thread* first_of_same_thread(const Thread& thread) const;
    bool find_runner(Thread& thread);
    [[nodiscard]] bool stayed_blocked(const Thread& thread) const;
    void take_chains(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void take_chains_of(Thread& runner, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    Sampled join_chains();
    bool prove_chains_by_copies();
    void prove_chains_by_stop(Thread& runner);
    [[nodiscard]] bool is_as_listed(const Interpreter& interpreter) const;
    [[nodiscard]] ThreadTriage::State look_at(Thread& thread, std::chrono::nanoseconds when, std::chrono::nanoseconds reuse_within);
    [[nodiscard]] bool is_anchored(const Walk& walk, const StackBuilder::Chain& chain) const;
    [[nodiscard]] bool has_sure_name(CodeIndex code);
    [[nodiscard]] bool is_complete(const Walk& walk, const StackBuilder::Chain& chain, StackBuilder::Built built) const;
    // src/sample/sampler_names.cpp
    void note_copy(Epoch::CopyFor what);
    void note_copied(std::span<const ReadRange> ranges);
    ThreadReader::Status take_copies(Thread& thread, std::span<const std::uint8_t> filled);
    ThreadReader::Status take_second_copies(Thread& thread);
    void note_misses(Thread& thread, std::uint64_t before);
    std::optional<StackBuilder::Built> build_named(const Thread& thread, const Walk& walk, StackBuilder::Chain& chain, Held held);
    // kReplaced: something else stands at one of its addresses by now, so that the chain must be built again. kUnknown: the
    // chain ends where a name can't be told.
    enum class Names : std::uint8_t { kGood, kReplaced, kUnknown };
    Names check_names(const Thread& thread, StackBuilder::Chain& chain, Held held);
    bool drop_misfit(const StackBuilder::Chain& chain);
    struct Standing {  // frames from the root on
        std::size_t frames = 0;
        std::size_t live = 0;
    };
    [[nodiscard]] Standing count_standing(const Thread& thread, const StackBuilder::Chain& chain);
    [[nodiscard]] bool is_too_late(const Thread& thread, std::size_t codes_read) const;
    [[nodiscard]] bool has_freed_code();
    bool build_whole(const Thread& thread, const Walk& walk, StackBuilder::Chain& chain, Held held = Held::kNo);
    [[nodiscard]] bool holds_gil(const Thread& thread) const;
    [[nodiscard]] bool is_collecting(const Thread& thread) const;
    void record_sampled(Thread& thread, const Sampled& sampled, bool collects, std::chrono::nanoseconds when,
                        std::chrono::nanoseconds weight);
    void take_loops(std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void learn_idle_stem(const Thread& thread, const StackBuilder::Chain& chain, const AsyncSampler::PlaceSteps& place);
    void take_worker(LoopSample& taken, std::chrono::nanoseconds when, std::chrono::nanoseconds weight);
    void record(Thread& thread, StackId stack, PathId names, std::chrono::nanoseconds when,
                std::chrono::nanoseconds weight, bool has_sure_names = false, bool is_truncated = false);
    void end_epoch(std::chrono::nanoseconds now);
    [[nodiscard]] Interpreter* interpreter_of(const Thread& thread);
    [[nodiscard]] const Interpreter* interpreter_of(const Thread& thread) const;

    Target& target_;
    Memory& memory_;
    PythonProcess& process_;
    const Layout& layout_;
    FrameShape shape_;
    StackTable& stacks_;
    SamplerOptions options_;
    Sink& sink_;
    CodeCache codes_;
    StackBuilder builder_;
    PathProver prover_;
    Mender mender_;
    Epoch epoch_;
    CallSites call_sites_;
    ThreadStopper* stopper_;
    StopBudget budget_;
    HoldBudget holds_;
    LookBudget looks_;
    StackBuilder::Chain other_chain_;  // of a stop or a second look
    std::chrono::nanoseconds copied_at_{0};  // the frames that are looked at now
    std::chrono::nanoseconds copied_by_{0};
    ReadPace pace_;
    bool is_read_at_once_ = false;  // the last copy that may prove something
    bool is_one_moment_ = false;    // ... with what it missed: the frames that are looked at now
    std::uint64_t asking_ = 0;            // number of the question
    std::vector<CodeIndex> asked_codes_;  // whose names are checked now
    std::vector<std::size_t> asked_depths_;
    std::vector<bool> stamps_hold_;
    std::vector<std::uint64_t> standing_codes_;
    std::unique_ptr<AsyncSampler> async_;  // none where it is off
    std::vector<LoopSample> loop_samples_;  // of this tick

    bool has_chains_ = false;  // several interpreters, whose chains can be joined
    std::vector<CStack> c_stacks_;
    std::vector<Chain> chains_;         // of this tick
    std::vector<Chain> chains_of_one_;  // thread, its own first, then from the outermost to the innermost

    std::vector<std::unique_ptr<Thread>> threads_;
    std::vector<Thread*> new_threads_;  // of them, those that the last look at the lists brought
    std::vector<Interpreter> interpreters_;
    std::uint32_t slice_begin_ = 0;  // of an interpreter
    std::uint32_t slice_bytes_ = 0;
    std::uint32_t runtime_begin_ = 0;
    std::vector<std::byte> runtime_slice_;
    bool has_runtime_slice_ = false;

    std::vector<ReadRange> look_ranges_;
    std::vector<std::uint8_t> look_filled_;
    std::vector<ReadRange> ranges_;
    std::vector<std::uint8_t> filled_;
    ThreadReader::Ahead ahead_;  // of this tick
    ThreadReader::Ahead look_ahead_;
    std::vector<std::uint8_t> filled_of_thread_;
    std::vector<Thread*> planned_;
    GilTurnReader turn_reader_;       // as fast as can be, where sleepers are wanted; else it is not placed
    GilTurn turn_;                    // at the last tick
    std::size_t turn_range_ = 0;
    std::vector<Thread*> vouched_for_;  // of this tick: taken to sleep on, if nobody has taken the GIL meanwhile
    std::vector<Thread*> in_doubt_;
    std::unique_ptr<ThreadStopper> no_stopper_;
    std::unique_ptr<NativeStacks> native_;
    std::vector<Thread*> native_planned_;
    std::vector<Thread*> native_chains_;  // that are copied with a thread's C stack, its own first
    std::vector<Chain> native_parts_;     // ... that stand on it, the one entered last first
    std::vector<NativeStacks::Part> parts_;
    std::vector<std::unique_ptr<BareThread>> bare_threads_;
    std::size_t interpreter_ranges_ = 0;
    bool must_refresh_ = true;
    bool is_gil_held_ = false;  // at this tick, by a thread that was looked at
    std::chrono::nanoseconds last_refresh_{0};
    std::chrono::nanoseconds last_native_refresh_{0};
    std::chrono::nanoseconds last_slices_{0};
    std::chrono::nanoseconds last_inferred_{0};
    std::chrono::nanoseconds start_{0};
    std::chrono::nanoseconds now_{0};  // of the tick
    bool has_start_ = false;
    bool has_two_copies_ = false;  // this tick's read may prove something
    ThreadIndex next_index_ = 0;
    RunFigures figures_;
};

}  // namespace pyprof
