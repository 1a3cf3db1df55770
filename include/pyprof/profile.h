// SPDX-License-Identifier: Apache-2.0
//
// What a recording holds: the tables of strings, frames and stacks, the weight of each stack per
// thread, and the run's own figures. The sampler thread writes the StackTable, the main thread the
// Profile; exporters see neither, only what resolve() made of them.
#pragma once

#include <pyprof/frame.h>
#include <pyprof/layout.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

// Append-only tables. One writer; readers on other threads see whatever was published before the ids
// reached them. Strings are valid UTF-8: the writer replaces what is not when it interns.
class StackTable {
public:
    struct Node {
        StackId parent = kRootStack;
        FrameId frame{};
        PathId path = kRootPath;
    };

    StackTable();
    ~StackTable();
    StackTable(const StackTable&) = delete;
    StackTable& operator=(const StackTable&) = delete;

    // Writer only. Equal arguments give equal ids.
    StringId intern_string(std::string_view text);
    FrameId intern_frame(const Frame& frame);
    StackId intern_child(StackId parent, FrameId frame, PathId path);
    PathId intern_path(PathId parent, std::uint32_t code);
    [[nodiscard]] std::optional<PathId> find_path(PathId parent, std::uint32_t code) const;  // interns nothing
    void prove(PathId path);  // and so every prefix of it
    // Takes a proof back; the caller does so for every path that continues this one.
    void disprove(PathId path);
    // Of a path that stands for a leaf whose callers were not read: what they follow to be by now, or nothing.
    void infer_callers(PathId path, std::optional<StackId> callers);

    // Any thread.
    [[nodiscard]] std::string_view string(StringId id) const;
    [[nodiscard]] const Frame& frame(FrameId id) const;
    [[nodiscard]] const Node& node(StackId id) const;
    [[nodiscard]] bool is_proved(PathId path) const;
    [[nodiscard]] std::optional<StackId> inferred_callers(PathId path) const;
    [[nodiscard]] PathId parent_path(PathId path) const;
    [[nodiscard]] bool continues(PathId path, PathId prefix) const;  // or is the same
    // What a recorded stack shows by now.
    struct Shown {
        StackId stack = kRootStack;
        bool is_proved = false;
        // Where it is not: its leaf alone is known, and below it these callers, or what they follow to be.
        StackId callers = kRootStack;
        bool are_inferred = false;
        [[nodiscard]] StackId sure_callers() const { return is_proved || are_inferred ? kRootStack : callers; }
    };
    [[nodiscard]] Shown shown(StackId stack) const;
    [[nodiscard]] std::size_t stack_count() const;   // nodes, the root included
    [[nodiscard]] std::size_t path_count() const;
    [[nodiscard]] std::size_t frame_count() const;

private:
    struct Tables;
    std::unique_ptr<Tables> tables_;
};

using ThreadIndex = std::uint32_t;

struct ProfiledThread {
    std::uint64_t native_id = 0;
    std::string name;
    bool is_main = false;
};

// The run's own figures; every output that can carry them does. Counts are of thread stacks.
struct RunFigures {
    std::uint64_t ticks = 0;      // moments at which the process was looked at
    std::uint64_t samples = 0;    // accepted thread stacks, the truncated ones included
    std::uint64_t reused = 0;     // unchanged stacks of blocked threads, taken without a read
    std::uint64_t truncated = 0;  // kept without a proved or complete path
    std::uint64_t inferred = 0;   // whose callers were not read but follow from the only known path to the leaf
    std::uint64_t second_readings = 0;  // samples dated by the second reading, a microsecond late: the first one was torn
    std::uint64_t refused = 0;    // stacks of which nothing could be kept
    std::uint64_t unknown = 0;    // stacks left out since the kernel did not tell what their thread does
    std::uint64_t frameless = 0;  // times that a thread ran and had no Python frame: it begins, ends, or is C code's
    std::uint64_t late = 0;       // ticks dropped because their time had passed
    std::uint64_t held_back = 0;  // ticks left out so that native stacks hold the target for no more than its share
    std::uint64_t errors = 0;     // reads that failed for another reason than movement
    std::uint64_t lost = 0;       // accepted samples that did not fit the ring
    std::uint64_t looks = 0;      // copies of a thread that take no sample, to prove a path
    std::uint64_t stops = 0;      // short stops of one thread, to prove a path or to copy its native stack
    std::uint64_t native = 0;          // samples with native frames
    std::uint64_t native_cut = 0;      // of these: not unwound to their root, since there
    std::uint64_t native_cut_code = 0;      // ... came code without unwind information, or none
    std::uint64_t native_cut_register = 0;  // ... was to be a register's value that is not known
    std::uint64_t native_cut_copy = 0;      // ... the stack went on outside of what was copied
    std::uint64_t native_cut_rule = 0;      // ... stack and unwind information contradicted each other
    std::uint64_t native_cut_depth = 0;     // ... were more frames than are taken
    std::uint64_t native_unplaced = 0; // with Python frames that lie in no native frame, though the stack was whole
    std::uint64_t native_none = 0;     // samples that were to have native frames and have none
    std::uint64_t remote_reads = 0;  // process_vm_readv calls
    std::uint64_t remote_bytes = 0;
    std::uint64_t busiest_thread_samples = 0;
    // Sums over the ticks, for means: threads that there were, those of them that ran, and whether a GIL was held by
    // a thread that was looked at.
    std::uint64_t thread_looks = 0;
    std::uint64_t running_looks = 0;
    std::uint64_t gil_ticks = 0;
    // Asyncio.
    std::uint64_t task_looks = 0;      // moments at which all tasks were looked at
    std::uint64_t most_tasks = 0;      // in one look
    std::uint64_t task_samples = 0;    // of waiting tasks
    std::uint64_t tasks_torn = 0;      // that did not hold still, and were left out
    std::uint64_t tasks_unlinked = 0;  // samples of a loop's thread that stayed without what waits for them
    std::uint64_t tasks_inferred = 0;  // samples whose path holds an inferred edge
    std::chrono::nanoseconds elapsed{0};
    std::chrono::nanoseconds paused{0};   // of that, gaps without a look that no sample stands for: we were stopped ourselves
    std::chrono::nanoseconds profiler_cpu{0};
    std::chrono::nanoseconds stopped{0};  // time for which a thread was held
    std::chrono::nanoseconds longest_stop{0};
    std::chrono::nanoseconds first_sample{0};  // from the start of the recorder until the end of the tick that took it
};

// Each sample slows the program down by some microseconds, which above this rate add up. 0 is as fast as can be.
constexpr double kDisturbingHz = 20'000;
constexpr bool disturbs_program(double rate_hz) { return rate_hz == 0 || rate_hz > kDisturbingHz; }

struct ProfileFacts {
    pid_t pid = 0;
    std::vector<std::string> command;
    std::string working_directory;
    std::string python;       // "3.12.1", "3.13.5 free-threaded"
    double rate_hz = 0;       // asked for; 0: as fast as can be
    std::chrono::system_clock::time_point started;
    bool with_lines = true;   // frames carry lines
    bool with_threads = false;  // a root frame per thread
    std::string which_threads;  // "running", "all", "GIL holder": the base of every percentage
    std::string tasks_base;     // what waiting tasks add to it: "task-seconds", "wall time"; empty: they are left out
};

class Profile {
public:
    // One run of equal samples of one thread, in the order of time; kept only where asked for.
    struct Span {
        StackId stack{};
        ThreadIndex thread = 0;
        std::uint32_t samples = 0;
        std::chrono::nanoseconds weight{0};
        std::chrono::nanoseconds begin{0};  // since the start of the recording
    };
    struct Weight {
        ThreadIndex thread = 0;
        StackId stack{};
        std::uint64_t samples = 0;
        std::chrono::nanoseconds time{0};
    };

    explicit Profile(std::shared_ptr<StackTable> stacks, bool keep_spans = false);
    ~Profile();

    // `weight` is the time that these samples stand for; it ends at `when`, since the start of the
    // recording. A hole before it (the thread slept, a sample was refused) ends the thread's span.
    // Returns the index of its weight in weights().
    std::size_t add(ThreadIndex thread, StackId stack, std::uint32_t samples, std::chrono::nanoseconds weight,
                    std::chrono::nanoseconds when);
    ThreadIndex add_thread(ProfiledThread thread);
    void name_thread(ThreadIndex thread, std::string name) { threads_[thread].name = std::move(name); }

    [[nodiscard]] const StackTable& stacks() const { return *stacks_; }
    [[nodiscard]] const std::vector<ProfiledThread>& threads() const { return threads_; }
    // Weights as recorded, unproved paths not yet folded: see resolve().
    [[nodiscard]] const std::vector<Weight>& weights() const { return weights_; }
    [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
    [[nodiscard]] bool empty() const { return total_samples_ == 0; }
    [[nodiscard]] std::uint64_t total_samples() const { return total_samples_; }

    ProfileFacts facts;
    RunFigures figures;

private:
    std::shared_ptr<StackTable> stacks_;
    std::vector<ProfiledThread> threads_;
    std::vector<Span> spans_;
    std::vector<Weight> weights_;  // one a (thread, stack)
    struct Index;                  // finds the weight of a (thread, stack)
    std::unique_ptr<Index> index_;
    bool keep_spans_ = false;
    std::uint64_t total_samples_ = 0;
};

// A profile made ready to be written: names as text, paths shortened, unproved stacks folded to
// [unproved] -> leaf, a root frame per thread where asked for. Node 0 is the root; a parent's index is
// lower than its child's. Equal frames have one index.
struct ResolvedProfile {
    struct Frame {
        FrameKind kind = FrameKind::kPython;
        std::string name;  // markers in brackets
        std::string file;  // shortened; empty where there is none
        std::string full_file;
        std::int32_t line = 0;
        std::string module = {};  // of a native frame: the file that its code is in
    };
    struct Node {
        std::uint32_t parent = 0;
        std::uint32_t frame = 0;  // of node 0: meaningless
    };
    struct Weight {
        ThreadIndex thread = 0;
        std::uint32_t node = 0;
        std::uint64_t samples = 0;
        std::chrono::nanoseconds time{0};
    };
    struct Span {
        ThreadIndex thread = 0;
        std::uint32_t node = 0;
        std::uint32_t samples = 0;
        std::chrono::nanoseconds weight{0};
        std::chrono::nanoseconds begin{0};
    };
    ProfileFacts facts;
    RunFigures figures;  // truncated counts the unproved, too
    std::vector<ProfiledThread> threads;
    std::vector<Frame> frames;
    std::vector<Node> nodes;
    std::vector<Weight> weights;
    std::vector<Span> spans;
    std::uint64_t total_samples = 0;
};

// What native frames are called. Asked while a profile is resolved, on that thread alone.
class NativeNames {
public:
    struct RunPlace {
        bool is_leaf = false;   // no Python frame above it
        bool is_root = false;   // no Python frame below it
    };
    virtual ~NativeNames() = default;
    // `run`: frames without a Python frame between them, root first, as Frame::line numbers them. Appends what is
    // to be shown of them, inlined functions included; machinery may be left out.
    virtual void name_run(std::span<const std::uint32_t> run, RunPlace place, std::vector<ResolvedProfile::Frame>& frames) = 0;
};

struct ResolveOptions {
    bool full_filenames = false;
    NativeNames* natives = nullptr;  // without it native frames are left out
    std::vector<std::uint32_t>* node_of_weight = nullptr;  // gets the node of each of the profile's weights
};
ResolvedProfile resolve(const Profile& profile, const ResolveOptions& options);

// "qualified.name (file.py:line)", "name (file.py)" without a line, or the name alone.
std::string label_of(const ResolvedProfile::Frame& frame);

}  // namespace pyprof
