// SPDX-License-Identifier: Apache-2.0
#include "sample/dump.h"

#include "python/code_cache.h"
#include "python/asyncio_tasks.h"
#include "python/thread_names.h"
#include "sample/dump_native.h"
#include "sample/dump_tasks.h"
#include "sample/interpreter_entry.h"
#include "sample/loops_on_c_stacks.h"
#include "sample/stack_builder.h"
#include "sample/thread_reader.h"
#include "sample/wait_marker.h"
#include "target/syscall_names.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <iterator>

namespace pyprof {

namespace {

// Without a stop a stack is read again until two copies agree; a thread that never holds still for so
// many tries is shown as [unproved] over its leaf.
constexpr int kTriesWithoutStop = 50;

constexpr int kStopTries = 50;
constexpr std::chrono::milliseconds kStopAgain{5};

class Dumper {
public:
    Dumper(Target& target, PythonProcess& process, const DumpOptions& options)
        : target_(target),
          memory_(target.memory()),
          process_(process),
          layout_(process.layout()),
          shape_(layout_),
          options_(options),
          codes_(memory_, layout_, stacks_),
          builder_(codes_, stacks_, options.with_lines),
          asyncio_(target, layout_, stacks_),
          tasks_(memory_, layout_, asyncio_, builder_, stacks_) {
        if (options.native) native_ = std::make_unique<DumpNative>(target, layout_, stacks_, options);
    }

    Result<Dump> run();

private:
    struct Seen {
        ThreadState state;
        pid_t tid = 0;
        Activity activity;
        std::string name;
        std::int64_t interpreter = 0;
    };
    // A thread of one interpreter, until those of one OS thread are joined.
    struct Read {
        DumpThread thread;
        Address entry{};  // on the C stack: where this interpreter was entered last; null where not known
        std::int64_t interpreter = 0;
        std::uint64_t native_id = 0;  // as the thread state says it
        // For native frames; null where there are no Python frames that are known to be real.
        std::unique_ptr<ThreadReader> reader;
        std::vector<RawFrame> to_find;  // on C stacks, when the target runs again; empty where the entry is known
        StackBuilder::Chain chain;
        std::vector<DumpFrame> callers;  // of a greenlet that a task has switched to, leaf first
        std::string wait;
        bool has_frames = false;
    };
    struct Joined {
        DumpThread thread;
        std::optional<StackId> native;
        std::vector<DumpFrame> callers;
    };
    StoppedBy who_stopped();
    std::vector<Seen> look_at_threads(Dump& dump);
    std::optional<Read> read_thread(const Seen& seen);  // nothing: it has ended
    void add_callers(const Seen& seen, Read& read);
    Activity activity_of(pid_t tid) { return name_restarted(memory_, target_.read_activity(tid)); }
    [[nodiscard]] const Mapping* stack_of(Address entry) const;
    Joined join_chains(std::vector<Read*> chains);
    [[nodiscard]] std::vector<DumpThread> join(std::vector<Read> reads);
    void add_bare_threads(std::vector<Joined>& threads);
    std::optional<StackId> native_of(const std::vector<Read*>& chains, const DumpThread& thread);
    void append_frames(StackId stack, std::vector<DumpFrame>& frames) const;
    bool read_stack(ThreadReader& reader, bool twice, ThreadReader::Status& status);
    const GilFacts& gil_of(Address interpreter);
    [[nodiscard]] ThreadCondition condition_of(const Activity& before, const Activity& now, const GilFacts& gil,
                                               bool holds) const;

    Target& target_;
    Memory& memory_;
    PythonProcess& process_;
    const Layout& layout_;
    FrameShape shape_;
    DumpOptions options_;
    StackTable stacks_;
    CodeCache codes_;
    StackBuilder builder_;
    ThreadCondition at_work_ = ThreadCondition::kRunning;  // of a thread that does not wait; idle where the process is stopped
    std::vector<std::pair<Address, GilFacts>> gils_;
    std::vector<Mapping> mappings_;  // where there are several interpreters
    LoopsOnCStacks loops_;           // ... and thread states do not tell who runs them
    ThreadList list_;
    AsyncioReader asyncio_;
    DumpTasks tasks_;
    std::vector<DumpWalk> walks_;  // of threads whose stack held still
    std::unique_ptr<DumpNative> native_;  // where native frames are wanted
    std::vector<ThreadId> all_threads_;   // ... or C stacks have to be searched: all of the process
    std::vector<std::pair<pid_t, Activity>> bare_activities_;  // ... of those of them that run no Python, before the stop
};

// What needs no stop is done before it: names, and what the kernel says (a stopped thread is blocked).
std::vector<Dumper::Seen> Dumper::look_at_threads(Dump& dump) {
    list_ = process_.read_threads(target_);
    const ThreadList& list = list_;
    dump.broken_lists = list.broken_lists;
    if (list.interpreters.size() > 1) mappings_ = target_.read_mappings().value_or(std::vector<Mapping>());
    std::vector<std::pair<Address, ThreadNames>> names;
    for (const InterpreterState& state : list.interpreters) names.emplace_back(state.address, ThreadNames(layout_, state.address));
    std::vector<Seen> threads;
    for (const ThreadState& state : list.threads) {
        Seen seen;
        seen.state = state;
        seen.tid = process_.tid_of(target_, state);
        for (auto& [address, of_interpreter] : names) {
            if (address != state.interpreter) continue;
            if (const std::string* name = of_interpreter.find(memory_, state.pthread)) seen.name = *name;
        }
        for (const InterpreterState& interpreter : list.interpreters) {
            if (interpreter.address == state.interpreter) seen.interpreter = interpreter.id;
        }
        if (seen.name.empty() && seen.tid != 0) seen.name = target_.read_thread_name(seen.tid);
        threads.push_back(std::move(seen));
    }
    std::reverse(threads.begin(), threads.end());  // lists are newest first
    for (Seen& seen : threads) {
        if (seen.tid != 0) seen.activity = activity_of(seen.tid);
    }
    return threads;
}

const GilFacts& Dumper::gil_of(Address interpreter) {
    for (const auto& [address, facts] : gils_) {
        if (address == interpreter) return facts;
    }
    gils_.emplace_back(interpreter, read_gil_facts(memory_, layout_, process_.runtime(), interpreter));
    return gils_.back().second;
}

// `before` was seen before our stop. `now` may be of a stopped thread: then it names the system call in
// which it was stopped, and none means that it was stopped in code of its own.
ThreadCondition Dumper::condition_of(const Activity& before, const Activity& now, const GilFacts& gil,
                                     bool holds) const {
    using Kind = Activity::Kind;
    if (now.kind == Kind::kUnknown || now.kind == Kind::kGone) return ThreadCondition::kUnknown;
    const bool in_call = now.kind == Kind::kBlocked && now.syscall >= 0;
    const bool slept = before.kind == Kind::kBlocked && (before.syscall == now.syscall || before.syscall < 0);
    const bool at_work = holds || !in_call;
    if (gil.is_collecting && (holds || (!gil.has_gil && at_work))) return ThreadCondition::kGc;
    if (at_work) return at_work_;
    if (waits_for_gil(now, gil.gil_begin, gil.gil_end)) return ThreadCondition::kGilWait;
    return slept ? ThreadCondition::kIdle : at_work_;
}

// One read and walk; of two copies true only when both agree in everything.
bool Dumper::read_stack(ThreadReader& reader, bool twice, ThreadReader::Status& status) {
    std::vector<ReadRange> ranges;
    reader.plan(ranges, twice ? ThreadReader::Copies::kAround : ThreadReader::Copies::kOne);
    std::vector<std::uint8_t> filled;
    read_all(memory_, ranges, filled);
    status = reader.take(memory_, filled, {}, options_.nonblocking ? ThreadReader::Motion::kMoves : ThreadReader::Motion::kStands);
    if (status != ThreadReader::Status::kOk) return true;
    if (!twice) return true;
    return reader.walk().end == WalkEnd::kRoot && reader.walk_other().end == WalkEnd::kRoot &&
           reader.walk().frames == reader.walk_other().frames;
}

// Two entries into interpreters that stand on one stack are of one OS thread. A thread state can't be asked
// for it: up to 3.12 it names the thread that made it, which need not be the one that runs it.
const Mapping* Dumper::stack_of(Address entry) const {
    const auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
        return is_within(entry, mapping.start, mapping.end);
    });
    return entry == kNullAddress || found == mappings_.end() ? nullptr : &*found;
}

// The chains of one OS thread become one stack, the interpreter that was entered last at its leaf: the C
// stack grows downwards.
Dumper::Joined Dumper::join_chains(std::vector<Read*> chains) {
    std::sort(chains.begin(), chains.end(), [](const Read* a, const Read* b) { return raw(a->entry) < raw(b->entry); });
    DumpThread joined = std::move(chains.front()->thread);
    std::vector<DumpFrame> callers = std::move(chains.back()->callers);
    for (std::size_t i = 1; i < chains.size(); ++i) {
        DumpThread& outer = chains[i]->thread;
        if (joined.native_id != outer.native_id) {
            joined.native_id = outer.native_id;
            joined.condition = outer.condition;
            joined.syscall = std::move(outer.syscall);
        }
        joined.name = std::move(outer.name);  // the inner interpreter knows the thread by a made-up one
        if (outer.holds_gil) joined.holds_gil = joined.holds_gil.value_or(false) || *outer.holds_gil;
        joined.frames.insert(joined.frames.end(), std::make_move_iterator(outer.frames.begin()),
                             std::make_move_iterator(outer.frames.end()));
    }
    auto native = native_of(chains, joined);
    return {std::move(joined), native, std::move(callers)};
}

// Nothing where a stack that is not known to be real would have to be joined.
std::optional<StackId> Dumper::native_of(const std::vector<Read*>& chains, const DumpThread& thread) {
    if (native_ == nullptr) return std::nullopt;
    DumpNative::Thread of{{}, kNullAddress, static_cast<pid_t>(thread.native_id), {}, {}};
    if (thread.condition == ThreadCondition::kGc) of.above_python = "[gc]";
    for (const Read* read : chains) {
        if (of.entry == kNullAddress) of.entry = read->entry;
        if (read->native_id == thread.native_id) of.leaf = read->wait;
        if (read->reader != nullptr) of.parts.push_back({read->reader.get(), &read->chain});
        if (read->reader == nullptr && read->has_frames) return std::nullopt;
    }
    return native_->join(of);
}

std::vector<DumpThread> Dumper::join(std::vector<Read> reads) {
    std::vector<Joined> joined;
    const auto is_claimed_twice = [&](const Read& read) {
        return read.interpreter != 0 && read.native_id != 0 &&
               std::any_of(reads.begin(), reads.end(), [&](const Read& other) {
                   return &other != &read && other.native_id == read.native_id;
               });
    };
    std::vector<bool> is_done(reads.size(), false);
    for (std::size_t i = 0; i < reads.size(); ++i) {
        if (is_done[i]) continue;
        Read& read = reads[i];
        const Mapping* stack = stack_of(read.entry);
        std::vector<Read*> chains{&read};
        for (std::size_t k = i + 1; k < reads.size() && stack != nullptr; ++k) {
            if (is_done[k] || stack_of(reads[k].entry) != stack) continue;
            chains.push_back(&reads[k]);
            is_done[k] = true;
        }
        if (chains.size() == 1 && is_claimed_twice(read)) {
            // That of whoever made the interpreter, which runs nothing; or, up to 3.10, nobody knows whose it is.
            if (read.thread.frames.empty()) continue;
            read.thread.native_id = 0;
            read.thread.condition = ThreadCondition::kUnknown;
            read.thread.syscall.reset();
        }
        joined.push_back(join_chains(std::move(chains)));
    }
    if (native_ != nullptr) add_bare_threads(joined);
    std::vector<DumpThread> threads;
    for (Joined& one : joined) {
        if (one.native) one.thread.frames = native_->name(*one.native);
        one.thread.frames.insert(one.thread.frames.end(), one.callers.begin(), one.callers.end());
        threads.push_back(std::move(one.thread));
    }
    return threads;
}

// Threads of libraries, which never ran Python: the kernel alone has a name for them.
void Dumper::add_bare_threads(std::vector<Joined>& threads) {
    for (const auto& [tid, activity] : bare_activities_) {
        DumpThread thread;
        thread.native_id = static_cast<std::uint64_t>(tid);
        thread.name = target_.read_thread_name(tid);
        const bool sleeps = activity.kind == Activity::Kind::kBlocked && activity.syscall >= 0;
        thread.condition = sleeps ? ThreadCondition::kIdle : at_work_;
        if (sleeps) thread.syscall = syscall_name(activity.syscall);
        if (activity.kind == Activity::Kind::kGone) continue;
        const std::string wait = sleeps ? wait_marker(activity, kNullAddress, kNullAddress) : "";
        auto stack = native_->join({{}, kNullAddress, tid, {}, wait});
        threads.push_back({std::move(thread), stack, {}});
    }
}

// Where a greenlet runs that a task has switched to, its stack does not show the task.
void Dumper::add_callers(const Seen& seen, Read& read) {
    if (options_.nonblocking || !asyncio_.is_found()) return;
    const RunningLoop* loop = asyncio_.loop_of(seen.state.address);
    Walk callers;
    callers.end = WalkEnd::kRoot;
    if (loop == nullptr || !asyncio_.read_callers(*loop, seen.state.interpreter, 0, callers.frames)) return;
    std::vector<RawFrame>& walked = walks_.back().frames;
    if (walked.back().address == callers.frames.back().address) return;  // it is being switched to
    StackBuilder::Chain chain;
    if (builder_.build(callers, chain) == StackBuilder::Built::kTorn) return;
    append_frames(builder_.stack_of(chain), read.callers);
    walked.insert(walked.end(), callers.frames.begin(), callers.frames.end());
}

std::optional<Dumper::Read> Dumper::read_thread(const Seen& seen) {
    Read read;
    read.interpreter = seen.interpreter;
    read.native_id = static_cast<std::uint64_t>(seen.tid);
    DumpThread& thread = read.thread;
    thread.native_id = static_cast<std::uint64_t>(seen.tid);
    thread.name = seen.name;
    auto owned = std::make_unique<ThreadReader>(layout_, shape_, seen.state.address);
    ThreadReader& reader = *owned;
    reader.set_identity(seen.state.interpreter, seen.state.pthread);
    ThreadReader::Status status{};
    bool holds_still = read_stack(reader, false, status);
    for (int i = 0; options_.nonblocking && i < kTriesWithoutStop; ++i) {
        holds_still = read_stack(reader, true, status);
        if (holds_still) break;
    }
    const GilFacts& gil = gil_of(seen.state.interpreter);
    if (status == ThreadReader::Status::kGone) return std::nullopt;
    const bool holds = thread_holds_gil(layout_, gil, seen.state.address, reader.thread_bytes());
    if (gil.has_gil && layout_.gil_kind != GilKind::kNone) thread.holds_gil = holds;
    const Activity now = seen.tid != 0 ? activity_of(seen.tid) : Activity{};
    thread.condition = condition_of(seen.activity, now, gil, holds);
    const bool waits = thread.condition == ThreadCondition::kIdle || thread.condition == ThreadCondition::kGilWait;
    if (waits && now.syscall >= 0) thread.syscall = syscall_name(now.syscall);
    if (waits && native_ != nullptr) read.wait = wait_marker(now, gil.gil_begin, gil.gil_end);
    if (status == ThreadReader::Status::kNoFrame) return read;

    read.has_frames = true;
    StackBuilder::Chain& chain = read.chain;
    const Walk& walk = reader.walk();
    if (tells_entries(layout_)) {
        read.entry = entry_on_c_stack(layout_, reader);
    } else if (!mappings_.empty()) {
        read.to_find = walk.frames;
    }
    const bool complete = builder_.build(walk, chain) != StackBuilder::Built::kTorn && walk.end == WalkEnd::kRoot;
    if (complete && holds_still) {
        append_frames(builder_.stack_of(chain), thread.frames);
        walks_.push_back({seen.state.address, thread.native_id, walk.frames});
        add_callers(seen, read);
        if (native_ != nullptr && (!options_.nonblocking || native_->slept_on(seen.tid))) read.reader = std::move(owned);
    } else {
        append_frames(builder_.unproved(walk.frames.empty() ? nullptr : &walk.frames.front()), thread.frames);
    }
    if (thread.condition == ThreadCondition::kGc) {
        thread.frames.insert(thread.frames.begin(), DumpFrame{FrameKind::kMarker, "[gc]", "", 0});
    }
    return read;
}

void Dumper::append_frames(StackId stack, std::vector<DumpFrame>& frames) const {
    while (stack != kRootStack) {
        const StackTable::Node& node = stacks_.node(stack);
        const Frame& frame = stacks_.frame(node.frame);
        frames.push_back({frame.kind, std::string(stacks_.string(frame.name)), std::string(stacks_.string(frame.file)),
                          frame.line});
        stack = node.parent;
    }
}

// A recording of ours holds a thread for some microseconds at a time: that is no tracer who keeps the process.
StoppedBy Dumper::who_stopped() {
    const StoppedBy by = stopped_by(target_);
    if (by != StoppedBy::kTracer) return by;
    std::this_thread::sleep_for(kStopAgain);
    return stopped_by(target_);
}

Result<Dump> Dumper::run() {
    Dump dump;
    auto facts = target_.read_facts();
    if (!facts) return tl::unexpected(facts.error());
    dump.process = std::move(*facts);
    dump.python = process_.version_text();
    dump.stopped_by = who_stopped();
    if (dump.stopped_by != StoppedBy::kNobody) at_work_ = ThreadCondition::kIdle;
    const std::vector<Seen> threads = look_at_threads(dump);
    dump.has_asyncio = options_.with_tasks && asyncio_.find(list_.interpreters);
    if (options_.with_tasks) dump.asyncio_problem = asyncio_.problem();
    // A first look while all runs: what it reads is known when the second one, of a target that stands, needs it.
    if (dump.has_asyncio) {
        Dump rehearsal;
        tasks_.look(list_, false, {}, rehearsal);
        (void)asyncio_.find_loops(list_);
    }
    const bool searches = !mappings_.empty() && !tells_entries(layout_);
    if (native_ != nullptr || searches) all_threads_ = target_.read_threads().value_or(std::vector<ThreadId>());
    if (native_ != nullptr) {
        for (const ThreadId& thread : all_threads_) {
            const bool is_python = std::any_of(threads.begin(), threads.end(), [&](const Seen& seen) { return seen.tid == thread.tid; });
            if (!is_python) bare_activities_.emplace_back(thread.tid, activity_of(thread.tid));
        }
    }
    std::vector<Read> reads;
    {
        std::unique_ptr<Stop> stop;
        if (!options_.nonblocking) {
            auto stopped = target_.stop();
            // A recording of ours holds a thread for some microseconds at a time: its stop is not ours yet.
            for (int i = 0; !stopped && stopped.error().code == ExitCode::kPermission && i < kStopTries; ++i) {
                std::this_thread::sleep_for(kStopAgain);
                stopped = target_.stop();
            }
            if (!stopped) return tl::unexpected(stopped.error());
            stop = std::move(*stopped);
        }
        if (native_ != nullptr) native_->copy_threads(all_threads_, stop.get());
        if (searches) loops_.copy(target_, all_threads_, mappings_, stop.get());
        for (const Seen& seen : threads) {
            if (auto read = read_thread(seen)) {
                reads.push_back(std::move(*read));
            } else {
                ++dump.unreadable_threads;
            }
        }
        if (dump.has_asyncio) tasks_.look(list_, !options_.nonblocking, walks_, dump);
    }
    for (Read& read : reads) {
        if (read.to_find.empty()) continue;
        read.entry = loops_.find(read.to_find, read.interpreter == 0 ? static_cast<pid_t>(read.native_id) : 0);
    }
    dump.threads = join(std::move(reads));
    return dump;
}

}  // namespace

std::string_view name_of(ThreadCondition condition) {
    switch (condition) {
        case ThreadCondition::kRunning:
            return "running";
        case ThreadCondition::kIdle:
            return "idle";
        case ThreadCondition::kGilWait:
            return "gil-wait";
        case ThreadCondition::kGc:
            return "gc";
        case ThreadCondition::kUnknown:
            break;
    }
    return "unknown";
}

Result<Dump> take_dump(Target& target, PythonProcess& process, const DumpOptions& options) {
    return Dumper(target, process, options).run();
}

}  // namespace pyprof
