// SPDX-License-Identifier: Apache-2.0
//
// Looks at the tasks of loops, remembers whose which frame is, and puts the sample of a loop's thread below the tasks that
// wait for what ran. It records nothing itself: the sampler does so with what splice() gives, and async_waiting.cpp.
#include "sample/async_sampler.h"

#include "base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

// A look that takes longer is followed by a pause of so many times its length, in which what it found goes on
// standing for the tasks: a process of ten thousand tasks shall not cost a processor.
constexpr nanoseconds kLongLook = std::chrono::microseconds(1500);
constexpr int kPauseAfterLook = 50;
constexpr std::uint32_t kFirstLooks = 1;
constexpr nanoseconds kPauseAfterHold = std::chrono::milliseconds(250);
constexpr nanoseconds kPauseForHold = std::chrono::milliseconds(20);  // until a stop may be made
// A task that was not come to for so many readings is forgotten.
constexpr std::uint32_t kForgetAfter = 1U << 16;
constexpr std::size_t kMostViews = 1U << 16;
constexpr std::size_t kMostOwners = 1U << 16;
constexpr nanoseconds kPauseToLearn = std::chrono::milliseconds(200);
constexpr nanoseconds kPauseToFind = std::chrono::milliseconds(500);

}  // namespace

AsyncSampler::AsyncSampler(Target& target, const Layout& layout, StackTable& stacks, CodeCache& codes,
                           StackBuilder& builder, Epoch& epoch, const AsyncOptions& options)
    : target_(target),
      memory_(target.memory()),
      layout_(layout),
      shape_(layout),
      stacks_(stacks),
      codes_(codes),
      builder_(builder),
      epoch_(epoch),
      options_(options),
      reader_(target, layout, stacks),
      trie_(codes, stacks, builder),
      wrapper_names_{stacks.intern_string("wrapper"), stacks.intern_string("run.<locals>.wrapper")},
      trio_names_{stacks.intern_string("unrolled_run"), stacks.intern_string("get_events"), stacks.intern_string("EpollIOManager.get_events")},
      worker_names_{stacks.intern_string("run"), stacks.intern_string("_WorkItem.run"), stacks.intern_string("WorkerThread.run")} {
    reader_.want_holders(options.with_inferred && options.mode == AsyncMode::kAll);
    intern_loops_names();
}

void AsyncSampler::set_threads(const ThreadList& threads) {
    const bool are_known = std::equal(threads.interpreters.begin(), threads.interpreters.end(), threads_.interpreters.begin(), threads_.interpreters.end(),
                                      [](const InterpreterState& a, const InterpreterState& b) { return a.address == b.address && a.id == b.id; });
    threads_ = threads;
    // Threads come and go more often than modules are loaded, and to ask for those takes some dozens of reads.
    if (!are_known || now_ >= next_find_) {
        next_find_ = now_ + kPauseToFind;
        reader_.find(threads_.interpreters);
    }
    if (!reader_.is_found()) return;
    // A loop may have begun in a thread that had none, or ended.
    const std::vector<RunningLoop>& running = reader_.find_loops(threads_);
    forget_ended(running);
    add_loops(running);
}

void AsyncSampler::forget_ended(const std::vector<RunningLoop>& running) {
    std::erase_if(loops_, [&](const Loop& loop) {
        const bool runs = std::any_of(running.begin(), running.end(), [&](const RunningLoop& known) { return known.thread == loop.thread; });
        if (runs) return false;
        // Nothing tells any more until when its tasks waited: the time of a pause is missed.
        draw_leaves(loop, drawn_);
        for (const auto& [task, samples] : drawn_) torn_ += std::uint64_t{samples} * loop.paused_ticks;
        return true;
    });
}

void AsyncSampler::add_loops(const std::vector<RunningLoop>& running) {
    for (const RunningLoop& found : running) {
        // A thread of a hub may come to run a loop of asyncio.
        std::erase_if(loops_, [&](const Loop& loop) { return loop.thread == found.thread && loop.is_hub != found.is_hub; });
        if (find_loop(found.thread) != nullptr) continue;
        Loop loop;
        loop.thread = found.thread;
        loop.is_hub = loop.has_stem = found.is_hub;
        loop.stem = trie_.root();
        for (const ThreadState& state : threads_.threads) {
            if (state.address == found.thread) loop.interpreter = state.interpreter;
        }
        loops_.push_back(std::move(loop));
    }
}

const AsyncSampler::Loop* AsyncSampler::find_loop(Address thread) const {
    const auto found = std::find_if(loops_.begin(), loops_.end(), [&](const Loop& loop) { return loop.thread == thread; });
    return found == loops_.end() ? nullptr : &*found;
}

AsyncSampler::Loop* AsyncSampler::find_loop(Address thread) {
    return const_cast<Loop*>(static_cast<const AsyncSampler*>(this)->find_loop(thread));
}

void AsyncSampler::begin_tick(nanoseconds when, nanoseconds weight) {
    if (start_.count() < 0) start_ = when;
    now_ = when;
    weight_ = weight;
    is_fresh_ = false;
    workers_.clear();
    ++turn_;
    for (Loop& loop : loops_) {
        loop.shown.clear();
        loop.owed += weight;
        ++loop.owed_ticks;
    }
}

void AsyncSampler::look() {
    if (is_fresh_ || now_ < next_look_) return;
    const nanoseconds began = thread_cpu_time();
    must_look_again_ = false;
    reader_.look(threads_, all_.sweep, hold_);
    ++looks_;
    remember(all_);
    note_alive();
    find_candidates();
    add_loops(all_.sweep.loops);
    is_fresh_ = true;
    const nanoseconds took = thread_cpu_time() - began - all_.sweep.searched;
    // The first look reads page by page what later ones have in one call; it may find little of what moves.
    const bool may_pause = looks_ > kFirstLooks || all_.sweep.torn <= candidates_.size();
    next_look_ = took > kLongLook && may_pause ? now_ + kPauseAfterLook * took : nanoseconds{0};
    // Where a look needs a stop of the thread, they share its budget with the proofs.
    if (all_.sweep.was_held) next_look_ = std::max(next_look_, now_ + kPauseAfterHold);
    if (hold_ && !all_.sweep.was_held && all_.sweep.torn > candidates_.size()) next_look_ = std::max(next_look_, now_ + kPauseForHold);
}

// What was read stands for later: which task a root frame belongs to.
void AsyncSampler::remember(Reading& reading) {
    reading.serial = ++readings_;
    const TaskSweep& sweep = reading.sweep;
    reading.graph.build(sweep.tasks.size(), sweep.edges, sweep.order, options_.with_inferred);
    if (owners_.size() > kMostOwners) owners_.clear();
    if (views_.size() > kMostViews) views_.clear();
    for (const AsyncTask& task : sweep.tasks) {
        if (task.fills != kNullAddress) filling_turn_ = turn_;
        const auto frames = sweep.frames_of(task);
        if (frames.empty()) continue;
        Owner& owner = owners_[raw(frames.back().address)];
        const bool is_known = owner.task == task.address && owner.identity == task.identity;
        if (!is_known) owner = {task.address, task.identity, turn_};
        owner.was_suspended |= task.state != TaskState::kRunning;
    }
}

// A task that a whole look did not find is no more: what is at its address later is another one.
void AsyncSampler::note_alive() {
    for (const AsyncTask& task : all_.sweep.tasks) {
        const auto known = views_.find(raw(task.address));
        if (known == views_.end()) continue;
        if (known->second.alive_at < last_whole_look_) known.value() = View{};
        known.value().alive_at = looks_;
    }
    if (all_.sweep.torn == 0 && all_.sweep.broken_lists == 0) last_whole_look_ = looks_;
}

// One that still waits for what it waited for together with a task that this look missed is no leaf: it would stand in
// that one's place.
void AsyncSampler::cover_above_torn() {
    const TaskSweep& sweep = all_.sweep;
    std::swap(waits_, waits_before_);
    waits_.clear();
    tsl::robin_set<std::uint64_t> known;  // task and awaiter; addresses of two differ enough
    const auto note = [&](const Wait& wait) {
        if (known.insert(raw(wait.task) * 0x9E3779B97F4A7C15ULL ^ raw(wait.awaiter)).second) waits_.push_back(wait);
    };
    for (const TaskEdge& edge : sweep.edges) {
        const AsyncTask& awaiter = sweep.tasks[edge.awaiter];
        if (edge.is_wait) note({sweep.tasks[edge.task].address, awaiter.address, awaiter.waits_for});
    }
    if (sweep.torn_tasks.empty()) return;
    tsl::robin_map<std::uint64_t, Address> waits_for;  // by awaiter
    for (const AsyncTask& task : sweep.tasks) waits_for[raw(task.address)] = task.waits_for;
    tsl::robin_set<std::uint64_t> torn;
    for (const Address task : sweep.torn_tasks) torn.insert(raw(task));
    for (const AsyncTask& task : sweep.tasks) {
        if (torn.contains(raw(task.waits_for))) covered_.insert(raw(task.address));
    }
    for (const Wait& wait : waits_before_) {
        if (!torn.contains(raw(wait.task))) continue;
        note(wait);  // until it is read again
        const auto now = waits_for.find(raw(wait.awaiter));
        if (now != waits_for.end() && wait.through != kNullAddress && now->second == wait.through) covered_.insert(raw(wait.awaiter));
    }
}

// A task of several moments stands for itself if no moment shows it above another one.
void AsyncSampler::find_candidates() {
    const TaskSweep& sweep = all_.sweep;
    covered_.clear();
    std::size_t listed = 0;
    for (TaskIndex i = 0; i < sweep.tasks.size(); ++i) {
        if (sweep.tasks[i].is_listed) ++listed;
        if (!all_.graph.is_leaf(i)) covered_.insert(raw(sweep.tasks[i].address));
    }
    cover_above_torn();
    candidates_.clear();
    for (TaskIndex i = 0; i < sweep.tasks.size(); ++i) {
        // A greenlet that has not begun has no frame to be shown by.
        if (sweep.tasks[i].is_greenlet && !sweep.tasks[i].has_begun) continue;
        if (sweep.tasks[i].is_listed && !covered_.contains(raw(sweep.tasks[i].address))) candidates_.push_back(i);
    }
    most_tasks_ = std::max<std::uint64_t>(most_tasks_, listed);
}

AsyncStacks::Place AsyncSampler::add_steps(AsyncStacks::Place place, const StackBuilder::Chain& chain, std::size_t begin,
                                           std::size_t end, const PlaceSteps& place_steps) {
    if (!place_steps) return trie_.add_steps(place, chain, begin, end);
    return {place_steps(place.stack, begin, end), trie_.names_of(place.names, chain, begin, end)};
}

// A code that was read after its frames were copied may be another one by now, unless they still refer to it.
bool AsyncSampler::frames_still_stand(const StackBuilder::Chain& chain) {
    for (const RawFrame& frame : chain.frames) {
        const auto code = read_pointer(memory_, frame.address + static_cast<std::uint64_t>(layout_.frame.code));
        if (!code || Address{raw(*code) & layout_.pointer_mask} != frame.code) return false;
    }
    return true;
}

std::string AsyncSampler::boundary_text(const AsyncTask& task, StringId wrapped) const {
    const std::string_view given = stacks_.string(task.name.given);
    const std::string_view own = stacks_.string(wrapped != kNoString ? wrapped : task.coroutine_name);
    return fmt::format("[task {}]", !given.empty() ? given : own.empty() ? std::string_view("?") : own);
}

AsyncSampler::View* AsyncSampler::view_of(const Reading& reading, TaskIndex index) {
    const AsyncTask& task = reading.sweep.tasks[index];
    View& view = views_[raw(task.address)];
    const bool is_same = view.coroutine == task.coroutine && view.identity == task.identity && view.given == task.name.given &&
                         view.context == task.context && view.note == task.origin;
    if (!is_same || view.alive_at < last_whole_look_ || readings_ - view.seen > kForgetAfter) {
        view = View{};
        view.coroutine = task.coroutine;
        view.given = task.name.given;
        view.identity = task.identity;
        view.context = task.context;
        view.note = task.origin;
        view.alive_at = looks_;
        view.running_turn = view.waiting_turn = static_cast<std::uint32_t>(random_());  // of many short ones not all go first to the first
        view.label = stacks_.intern_string(boundary_text(task, kNoString));
    }
    // Of a greenlet that runs there are the frames that it had when it was suspended last.
    if (task.is_greenlet && task.state == TaskState::kRunning) {
        epoch_.mark_used(view.chain);
        return &view;
    }
    if (view.seen != reading.serial || view.index != index) {
        const auto frames = reading.sweep.frames_of(task);
        view.seen = reading.serial;
        view.index = index;
        walk_.frames.assign(frames.begin(), frames.end());
        const StackBuilder::Built built = builder_.build(walk_, view.chain);
        const bool stands = view.chain.read_at.empty() || frames_still_stand(view.chain);
        const bool has_frames = !view.chain.steps.empty() || task.is_greenlet;  // one that waits in C has none
        if (built == StackBuilder::Built::kTorn || !stands || !has_frames) {
            view.chain = {};
            view.seen = 0;
            return nullptr;
        }
        // While it runs, what it awaits is not told, but has not changed.
        if (const StringId wrapped = wrapped_by(view.chain, 0); wrapped != kNoString) view.wrapped = wrapped;
        view.label = stacks_.intern_string(boundary_text(task, view.wrapped));
    }
    epoch_.mark_used(view.chain);
    return &view;
}

AsyncStacks::Place AsyncSampler::add_boundary(AsyncStacks::Place place, StringId label) {
    return trie_.marker(place, stacks_.string(label));
}

AsyncStacks::Place AsyncSampler::add_frames(AsyncStacks::Place place, const View& view, std::size_t end) {
    const std::size_t first = view.wrapped == kNoString ? 0 : 1;
    return trie_.add_coroutines(place, view.chain, first, std::max(end, first + 1));
}

AsyncStacks::Place AsyncSampler::add_task(AsyncStacks::Place place, const AsyncTask& task, const View& view) {
    return task.is_main_greenlet ? place : add_boundary(place, view.label);
}

const TaskEdge* AsyncSampler::edge_between(const TaskGraph& graph, TaskIndex task, TaskIndex awaiter) const {
    for (const TaskEdge& edge : graph.awaiters(task)) {
        if (edge.awaiter == awaiter) return &edge;
    }
    return nullptr;
}

// Where the boundary of `task` stands: below its awaiters, and theirs.
std::optional<AsyncSampler::Path> AsyncSampler::place_below(AsyncStacks::Place stem, const Reading& reading, TaskIndex task) {
    View* own = view_of(reading, task);
    if (own == nullptr) return std::nullopt;
    // Each record of this task takes the next one of its paths: ticks do not tell, as a look can stand for two or more.
    std::uint32_t& turn = &reading == &all_ ? own->waiting_turn : own->running_turn;
    reading.graph.path_of(task, turn++, path_);
    const AsyncTask& top = reading.sweep.tasks[path_.tasks.back()];
    const Sleeper* sleeper = path_.ends_in_cycle ? nullptr : sleeper_for(top);
    const auto start = sleeper != nullptr ? sleeper->place : stem_of(top, reading.sweep.tasks[task], stem);
    if (!start) return std::nullopt;
    Path found{*start, false};
    if (path_.ends_in_cycle) found.place = trie_.marker(found.place, "[await cycle]");
    for (std::size_t i = path_.tasks.size(); i-- > 0;) {
        View* view = view_of(reading, path_.tasks[i]);
        if (view == nullptr) return std::nullopt;
        const bool is_top = i + 1 == path_.tasks.size();
        const bool has_notes = options_.with_origins || reading.sweep.tasks[path_.tasks[i]].is_greenlet;
        const bool has_sure_awaiter = is_top ? sleeper != nullptr : !is_inferred(path_.sources[i]);
        if (has_notes && !has_sure_awaiter && !path_.ends_in_cycle && has_origin(reading, path_.tasks[i], *view)) {
            // Nobody awaits it, but the interpreter knows who made it.
            found = {add_origin(*start, *view), false};
        } else if (view->has_parent && !has_sure_awaiter && options_.with_inferred && !path_.ends_in_cycle &&
            (is_top || path_.sources[i] > EdgeSource::kRemembered)) {
            // What waited for it, or started it, is no more: it stays where it was.
            found = {trie_.marker(view->parent, "[spawned, inferred]"), true};
        } else if (!is_top) {
            view->parent = found.place;
            view->has_parent = true;
            const TaskEdge* edge = edge_between(reading.graph, path_.tasks[i], path_.tasks[i + 1]);
            if (edge == nullptr) return std::nullopt;
            if (is_inferred(edge->source)) {
                found.place = trie_.marker(found.place, edge->source == EdgeSource::kCallback ? "[callback, inferred]" : "[spawned, inferred]");
                found.is_inferred = true;
            } else if (!edge->is_wait) {
                found.place = trie_.marker(found.place, "[spawned]");
            }
        }
        if (i == 0) break;
        const AsyncTask& task_above = reading.sweep.tasks[path_.tasks[i]];
        const bool runs = task_above.state == TaskState::kRunning;
        if (runs && view->chain.steps.empty()) return std::nullopt;  // it was never seen suspended
        found.place = add_task(found.place, task_above, *view);
        const TaskEdge* below = edge_between(reading.graph, path_.tasks[i - 1], path_.tasks[i]);
        if (below == nullptr) return std::nullopt;
        if (below->is_wait && runs) return std::nullopt;  // who waits does not run
        // One that does not wait for it stands elsewhere by now: only what has opened its group, and what called that, is sure
        // to be there.
        found.place = add_frames(found.place, *view, below->is_wait ? view->chain.steps.size() : below->depth);
    }
    return found;
}

// Whether the very task was there in an earlier tick: asyncio numbers tasks, and gives no number twice.
bool AsyncSampler::was_known(const AsyncTask& task, Address root_frame) const {
    const auto known = owners_.find(raw(root_frame));
    return known != owners_.end() && known->second.task == task.address && task.identity != 0 &&
           known->second.identity == task.identity && known->second.first_turn < turn_;
}

// Reads a task whose own frame `frame` was seen to run, and those above it. The frame was this task's at the moment
// of the sample if the loop has called nothing since, or if the task was there before the sample and still is.
bool AsyncSampler::read_task_of(Loop& loop, Address task, const RawFrame& frame, std::uint64_t version, Reading& reading,
                                TaskIndex& index, bool& is_same_step) {
    const auto read = reader_.read_path(task, loop.interpreter, reading.sweep);
    remember(reading);
    if (!read) return false;
    index = *read;
    if (reading.sweep.tasks[index].thread != loop.thread) return false;  // its loop does not run here: a forked child
    const auto frames = reading.sweep.frames_of(reading.sweep.tasks[index]);
    if (frames.empty() || frames.back().address != frame.address || frames.back().code != frame.code) return false;
    is_same_step = false;
    for (const RunningLoop& running : reading.sweep.loops) {
        is_same_step |= running.thread == loop.thread && version != 0 && running.context_version == version;
    }
    return is_same_step || was_known(reading.sweep.tasks[index], frame.address);
}

// The task to which the outermost coroutine of a thread belongs: loop.path and loop.root.
bool AsyncSampler::find_root(Loop& loop, const RawFrame& frame, std::uint64_t version) {
    if (version != 0 && loop.version == version && loop.root_frame == frame.address) return true;  // still in that step
    loop.version = 0;
    loop.root_frame = frame.address;
    loop.current = kNullAddress;
    bool is_same_step = false;
    const auto owner = owners_.find(raw(frame.address));
    const Address known = owner == owners_.end() ? kNullAddress : owner->second.task;
    bool is_found = known != kNullAddress && read_task_of(loop, known, frame, version, loop.path, loop.root, is_same_step);
    if (!is_found || is_same_step) {
        const RunningLoop* running = reader_.loop_of(loop.thread);
        if (running != nullptr) loop.current = reader_.current_task(*running, loop.interpreter);
    }
    if (!is_found && loop.current != kNullAddress && loop.current != known) {
        is_found = read_task_of(loop, loop.current, frame, version, loop.path, loop.root, is_same_step);
    }
    if (is_found && is_same_step) loop.version = version;
    return is_found;
}

// Tasks that began within the step of another one: eager ones.
void AsyncSampler::find_inner_roots(Loop& loop, const StackBuilder::Chain& chain, std::size_t first, std::uint64_t version) {
    const std::size_t count = chain.steps.size();
    for (std::size_t step = first + 1; step < count; ++step) {
        if (!codes_.entry(chain.steps[step].code).is_generator) continue;
        const RawFrame& frame = chain.frames[count - 1 - step];
        const auto owner = owners_.find(raw(frame.address));
        const Address current = loop.current == loop.path.sweep.tasks[loop.root].address ? kNullAddress : loop.current;
        const Address task = owner != owners_.end() ? owner->second.task : current;
        TaskIndex index = 0;
        bool is_same_step = false;
        if (task == kNullAddress || !read_task_of(loop, task, frame, version, inner_, index, is_same_step)) continue;
        if (const View* view = view_of(inner_, index)) {
            roots_.push_back({step, view->label});
            loop.shown.push_back(task);
        }
    }
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice(Address thread, StackBuilder::Chain& chain,
                                                          std::uint64_t context_version, const PlaceSteps& place_steps) {
    if (chain.steps.empty() || chain.steps.size() != chain.frames.size()) return std::nullopt;
    Loop* loop = find_loop(thread);
    if (loop == nullptr) return std::nullopt;
    if (loop->is_hub) return splice_greenlet(thread, chain, context_version, place_steps);
    if (is_foreign(*loop, chain) && fold_of(chain).kind == Fold::Kind::kUnknown) {
        if (find_callers(*loop, context_version)) return splice_switched(thread, chain, context_version, place_steps);
        if (!has_generator(chain) && reader_.has_greenlets(loop->interpreter)) {
            ++unlinked_;
            learn_tasks();  // one of them may wait within a greenlet
            return std::nullopt;
        }
    }
    return splice_task(*loop, chain, context_version, place_steps);
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice_task(Loop& loop, const StackBuilder::Chain& chain,
                                                               std::uint64_t context_version, const PlaceSteps& place_steps) {
    const std::size_t count = chain.steps.size();
    const Fold fold = fold_of(chain);
    const bool is_below_loop = fold.kind != Fold::Kind::kUnknown;
    const bool is_below_greenlet = &chain == &loop.callers;  // has no native frames, and no proof of its own that it is the loop's
    if (!is_below_greenlet) note_stem(loop, chain, fold, place_steps);
    std::size_t first = is_below_loop ? fold.step : 0;
    if (fold.kind == Fold::Kind::kTrio) ++first;  // a generator, and no task
    while (first < count && !codes_.entry(chain.steps[first].code).is_generator) ++first;
    if (first == count) return std::nullopt;  // nothing of a task: the loop itself, or a plain callback
    const auto root_step = find_root_step(loop, chain, first, is_below_loop, context_version);
    if (!root_step) {
        ++unlinked_;
        learn_tasks();
        return std::nullopt;
    }
    first = *root_step;
    const RawFrame& root_frame = chain.frames[count - 1 - first];
    if (!is_below_loop && !is_below_greenlet && !is_foreign(loop, chain) && is_stepped_by_loop(root_frame)) learn_stem(loop, chain, first, false, place_steps);
    const AsyncStacks::Place stem =
        is_below_greenlet && has_stem(loop, chain) && !options_.full_loop_frames
            ? loop.stem
            : add_steps(trie_.root(), chain, 0, options_.full_loop_frames ? first : std::min(fold.step, first), place_steps);
    const auto path = place_below(stem, loop.path, loop.root);
    const View* view = path ? view_of(loop.path, loop.root) : nullptr;
    if (view == nullptr) {
        ++unlinked_;
        return std::nullopt;
    }
    for (const TaskIndex task : path_.tasks) loop.shown.push_back(loop.path.sweep.tasks[task].address);
    const StringId wrapped = wrapped_by(chain, first);
    const StringId label = wrapped == kNoString ? view->label : stacks_.intern_string(boundary_text(loop.path.sweep.tasks[loop.root], wrapped));
    roots_.assign(1, {wrapped == kNoString ? first : first + 1, label});
    find_inner_roots(loop, chain, first, context_version);
    find_between(loop, chain, first, context_version);
    AsyncStacks::Place place = path->place;
    for (std::size_t i = 0; i < roots_.size(); ++i) {
        place = add_boundary(place, roots_[i].label);
        place = add_running(loop, place, chain, first, roots_[i].step, i + 1 < roots_.size() ? roots_[i + 1].step : count, place_steps);
    }
    if (path->is_inferred) ++inferred_;
    return Spliced{place, path->is_inferred};
}

// Where only what runs is wanted, all tasks are looked at now and then, when one was not known.
void AsyncSampler::learn_tasks() {
    if (options_.mode != AsyncMode::kRunning) return;
    look();
    if (is_fresh_) next_look_ = std::max(next_look_, now_ + kPauseToLearn);
}

void AsyncSampler::forget_codes() {
    for (auto entry = views_.begin(); entry != views_.end(); ++entry) {
        entry.value().chain = {};
        entry.value().seen = 0;
    }
    for (Loop& loop : loops_) {
        loop.callers = {};
        loop.between.clear();
        loop.callers_version = loop.between_version = 0;
    }
}

void AsyncSampler::add_figures(RunFigures& figures) const {
    figures.task_samples = task_samples_;
    figures.task_looks = readings_;
    figures.tasks_torn = torn_;
    figures.tasks_unlinked = unlinked_;
    figures.tasks_inferred = inferred_;
    figures.most_tasks = most_tasks_;
}

}  // namespace pyprof
