// SPDX-License-Identifier: Apache-2.0
#include "sample/async_sampler.h"

#include "base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

// A look that takes longer is followed by a pause of so many times its length, in which what it found goes on
// standing for the tasks: a process of ten thousand tasks shall not cost a processor.
constexpr nanoseconds kLongLook = std::chrono::microseconds(1500);
constexpr int kPauseAfterLook = 30;
constexpr std::uint32_t kFirstLooks = 3;
// A task that was not come to for so many looks is forgotten.
constexpr std::uint32_t kForgetAfter = 4096;
constexpr std::size_t kMostViews = 1U << 16;

}  // namespace

AsyncSampler::AsyncSampler(Target& target, const Layout& layout, StackTable& stacks, CodeCache& codes,
                           StackBuilder& builder, Epoch& epoch, const AsyncOptions& options)
    : target_(target),
      memory_(target.memory()),
      layout_(layout),
      stacks_(stacks),
      codes_(codes),
      builder_(builder),
      epoch_(epoch),
      options_(options),
      reader_(target, layout, stacks),
      trie_(codes, stacks, builder),
      run_once_names_{stacks.intern_string("_run_once"), stacks.intern_string("BaseEventLoop._run_once")} {}

void AsyncSampler::set_threads(const ThreadList& threads) {
    threads_ = threads;
    reader_.find(threads_.interpreters);
    if (!reader_.is_found()) return;
    std::erase_if(loops_, [&](const Loop& loop) {
        return std::none_of(threads_.threads.begin(), threads_.threads.end(),
                            [&](const ThreadState& state) { return state.address == loop.thread; });
    });
    // A loop may have begun in a thread that had none, or ended.
    next_look_ = nanoseconds{0};
    if (!is_fresh_) look(true);
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
    ++turn_;
    for (Loop& loop : loops_) {
        loop.running = kNullAddress;
        loop.owed += weight;
        ++loop.owed_ticks;
    }
}

void AsyncSampler::look(bool must) {
    if (is_fresh_ || (!must && now_ < next_look_)) return;
    const nanoseconds began = monotonic_now();
    reader_.sweep(threads_, false, sweep_);
    ++looks_;
    torn_ += sweep_.torn;
    most_tasks_ = std::max<std::uint64_t>(most_tasks_, sweep_.tasks.size());
    graph_.build(sweep_.tasks.size(), sweep_.edges, sweep_.order, options_.with_inferred);
    root_frames_.clear();
    for (TaskIndex i = 0; i < sweep_.tasks.size(); ++i) {
        const auto frames = sweep_.frames_of(sweep_.tasks[i]);
        if (!frames.empty()) root_frames_[raw(frames.back().address)] = i;
    }
    std::erase_if(loops_, [&](const Loop& loop) {
        return std::none_of(sweep_.loops.begin(), sweep_.loops.end(),
                            [&](const RunningLoop& running) { return running.thread == loop.thread; });
    });
    for (const RunningLoop& running : sweep_.loops) {
        if (find_loop(running.thread) != nullptr) continue;
        loops_.push_back({});
        loops_.back().thread = running.thread;
    }
    is_fresh_ = true;
    const nanoseconds took = monotonic_now() - began;
    // The first looks read page by page what later ones have in one call.
    next_look_ = took > kLongLook && looks_ > kFirstLooks ? now_ + kPauseAfterLook * took : nanoseconds{0};
    if (views_.size() > kMostViews) views_.clear();
}

// The step of the loop's own first frame: those from there on are machinery, up to where a task begins.
std::size_t AsyncSampler::fold_of(const StackBuilder::Chain& chain) const {
    for (std::size_t i = 0; i < chain.steps.size(); ++i) {
        const StringId name = codes_.entry(chain.steps[i].code).name;
        if (name == run_once_names_[0] || name == run_once_names_[1]) return i;
    }
    return chain.steps.size();
}

void AsyncSampler::learn_stem(Loop& loop, const StackBuilder::Chain& chain, std::size_t fold) {
    if (fold == 0 || !stacks_.is_proved(chain.steps[fold - 1].path)) return;
    const std::size_t end = options_.full_loop_frames ? std::min(fold + 1, chain.steps.size()) : fold;
    loop.stem = trie_.add_steps(trie_.root(), chain, 0, end);
    loop.has_stem = true;
}

// A code that was read after its frames were copied may be another one by now, unless they still refer to it.
bool AsyncSampler::frames_still_stand(const StackBuilder::Chain& chain) {
    for (const RawFrame& frame : chain.frames) {
        const auto code = read_pointer(memory_, frame.address + static_cast<std::uint64_t>(layout_.frame.code));
        if (!code || Address{raw(*code) & layout_.pointer_mask} != frame.code) return false;
    }
    return true;
}

std::string AsyncSampler::boundary_text(const AsyncTask& task) const {
    const std::string_view given = stacks_.string(task.name.given);
    const std::string_view own = stacks_.string(task.coroutine_name);
    return fmt::format("[task {}]", !given.empty() ? given : own.empty() ? std::string_view("?") : own);
}

AsyncSampler::View* AsyncSampler::view_of(TaskIndex index) {
    const AsyncTask& task = sweep_.tasks[index];
    View& view = views_[raw(task.address)];
    const bool is_same = view.coroutine == task.coroutine && view.name.number == task.name.number && view.name.given == task.name.given;
    if (!is_same || looks_ - view.seen > kForgetAfter) {
        view = View{};
        view.coroutine = task.coroutine;
        view.name = task.name;
        view.first_seen = looks_;
    }
    const auto frames = sweep_.frames_of(task);
    if (view.seen != looks_ || view.chain.steps.size() != frames.size()) {
        view.seen = looks_;
        view.label = stacks_.intern_string(boundary_text(task));
        walk_.frames.assign(frames.begin(), frames.end());
        const StackBuilder::Built built = builder_.build(walk_, view.chain);
        const bool stands = !view.chain.read_code || frames_still_stand(view.chain);
        if (built == StackBuilder::Built::kTorn || !stands || view.chain.steps.empty()) {
            view.chain = {};
            view.seen = 0;
            return nullptr;
        }
    }
    epoch_.mark_used(view.chain);
    return &view;
}

AsyncStacks::Place AsyncSampler::add_boundary(AsyncStacks::Place place, const View& view) {
    return trie_.marker(place, stacks_.string(view.label));
}

const TaskEdge* AsyncSampler::edge_between(TaskIndex task, TaskIndex awaiter) const {
    for (const TaskEdge& edge : graph_.awaiters(task)) {
        if (edge.awaiter == awaiter) return &edge;
    }
    return nullptr;
}

// Whether an earlier look has seen the very task: asyncio numbers tasks, and gives no number twice.
bool AsyncSampler::was_known(TaskIndex index) const {
    const AsyncTask& task = sweep_.tasks[index];
    const auto known = views_.find(raw(task.address));
    return known != views_.end() && known->second.coroutine == task.coroutine && task.name.number != 0 &&
           known->second.name.number == task.name.number && known->second.first_seen < looks_;
}

// Where the boundary of `task` stands: below its awaiters, and theirs. What was read one by one must not be put
// together: an address at which one looked for the awaited task may be another task's by then. So awaiters must be
// of the look's own moment, and the task as well, or be sure to have lived at that moment (`is_sure`).
std::optional<AsyncSampler::Path> AsyncSampler::place_below(AsyncStacks::Place stem, TaskIndex task, bool is_sure) {
    graph_.path_of(task, turn_, path_);
    Path found{stem, false};
    if (path_.tasks.size() > 1 && !is_sure && !sweep_.tasks[task].is_of_look) {
        (void)view_of(task);  // the next look will know it
        return std::nullopt;
    }
    for (std::size_t i = 1; i < path_.tasks.size(); ++i) {
        if (!sweep_.tasks[path_.tasks[i]].is_of_look) return std::nullopt;
    }
    if (path_.ends_in_cycle) found.place = trie_.marker(found.place, "[await cycle]");
    for (std::size_t i = path_.tasks.size(); i-- > 0;) {
        View* view = view_of(path_.tasks[i]);
        if (view == nullptr) return std::nullopt;
        const bool is_top = i + 1 == path_.tasks.size();
        const bool has_sure_awaiter = !is_top && !is_inferred(path_.sources[i]);
        if (view->has_parent && !has_sure_awaiter && options_.with_inferred && !path_.ends_in_cycle &&
            (is_top || path_.sources[i] > EdgeSource::kRemembered)) {
            // What waited for it, or started it, is no more: it stays where it was.
            found = {trie_.marker(view->parent, "[spawned, inferred]"), true};
        } else if (!is_top) {
            view->parent = found.place;
            view->has_parent = true;
            const TaskEdge* edge = edge_between(path_.tasks[i], path_.tasks[i + 1]);
            if (edge == nullptr) return std::nullopt;
            if (is_inferred(edge->source)) {
                found.place = trie_.marker(found.place, "[spawned, inferred]");
                found.is_inferred = true;
            } else if (!edge->is_wait) {
                found.place = trie_.marker(found.place, "[spawned]");
            }
        }
        if (i == 0) break;
        found.place = add_boundary(found.place, *view);
        const TaskEdge* below = edge_between(path_.tasks[i - 1], path_.tasks[i]);
        if (below == nullptr) return std::nullopt;
        const bool runs = sweep_.tasks[path_.tasks[i]].state == TaskState::kRunning;
        if (below->is_wait && runs) return std::nullopt;  // who waits does not run: it was read at another moment
        // One that does not wait for it stands elsewhere by now: only its own coroutine is sure to be there.
        found.place = trie_.add_coroutines(found.place, view->chain, below->is_wait ? view->chain.steps.size() : 1);
    }
    return found;
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice(Address thread, StackBuilder::Chain& chain,
                                                          std::uint64_t context_version) {
    if (chain.steps.size() != chain.frames.size()) return std::nullopt;
    const std::size_t count = chain.steps.size();
    const std::size_t fold = fold_of(chain);
    std::size_t first = fold == count ? 0 : fold;
    while (first < count && !codes_.entry(chain.steps[first].code).is_generator) ++first;
    if (first == count) {
        // Nothing of a task: the loop itself, or a plain callback.
        if (Loop* loop = find_loop(thread)) learn_stem(*loop, chain, fold);
        return std::nullopt;
    }
    look(false);
    Loop* loop = find_loop(thread);
    if (loop == nullptr) return std::nullopt;
    if (fold < count || !loop->has_stem) learn_stem(*loop, chain, std::min(fold, first));

    roots_.clear();
    for (std::size_t i = first; i < count; ++i) {
        if (!codes_.entry(chain.steps[i].code).is_generator) continue;
        const RawFrame& frame = chain.frames[count - 1 - i];
        const auto known = root_frames_.find(raw(frame.address));
        const bool is_root = known != root_frames_.end() &&
                             sweep_.frames_of(sweep_.tasks[known->second]).back().code == frame.code;
        if (is_root) roots_.push_back(i);
        if (roots_.empty()) break;  // the outermost coroutine is of no task that was seen
    }
    if (roots_.empty()) {
        ++unlinked_;
        return std::nullopt;
    }
    const auto task_at = [&](std::size_t step) {
        return root_frames_.find(raw(chain.frames[count - 1 - step].address))->second;
    };
    const TaskIndex task = task_at(roots_.front());
    // The frame was this task's at the moment of the sample if the task was there before it, or if the loop has
    // called nothing since.
    bool is_same_step = false;
    for (const RunningLoop& running : sweep_.loops) {
        is_same_step |= is_fresh_ && running.thread == thread && context_version != 0 &&
                        running.context_version == context_version;
    }
    const bool is_known = was_known(task);
    const bool is_sure = is_fresh_ && (is_known || is_same_step);
    if (!is_sure && (!options_.with_inferred || !is_known)) {
        (void)view_of(task);  // the next sample will know it
        ++unlinked_;
        return std::nullopt;
    }
    const AsyncStacks::Place stem =
        trie_.add_steps(trie_.root(), chain, 0, options_.full_loop_frames ? roots_.front() : std::min(fold, roots_.front()));
    const auto path = place_below(stem, task, is_sure || is_known);
    if (!path) {
        ++unlinked_;
        return std::nullopt;
    }
    AsyncStacks::Place place = path->place;
    for (std::size_t i = 0; i < roots_.size(); ++i) {
        const View* view = view_of(task_at(roots_[i]));
        if (view == nullptr) {
            ++unlinked_;
            return std::nullopt;
        }
        place = add_boundary(place, *view);
        place = trie_.add_steps(place, chain, roots_[i], i + 1 < roots_.size() ? roots_[i + 1] : count);
    }
    loop->running = sweep_.tasks[task_at(roots_.back())].address;
    const bool is_guess = path->is_inferred || !is_sure;
    if (is_guess) ++inferred_;
    return Spliced{place, is_guess};
}

// Leaves with how many each stands for: all of them, or one drawn out of each of most_leaves equal parts. Those that
// are ready come by themselves: they are few and tell what the loop does not get to.
void AsyncSampler::draw_leaves(const Loop& loop, std::vector<std::pair<TaskIndex, std::uint32_t>>& drawn) {
    drawn.clear();
    std::size_t waiting = 0;
    for (TaskIndex i = 0; i < sweep_.tasks.size(); ++i) {
        const AsyncTask& task = sweep_.tasks[i];
        if (task.thread != loop.thread || task.address == loop.running || task.state == TaskState::kRunning) continue;
        if (graph_.is_leaf(i)) drawn.push_back({i, 1});
    }
    waiting = drawn.size();
    const std::size_t most = options_.weight == AsyncWeight::kShare ? 1 : options_.most_leaves;
    if (waiting <= most) return;
    for (std::size_t part = 0; part < most; ++part) {
        const std::size_t begin = part * waiting / most;
        const std::size_t size = (part + 1) * waiting / most - begin;
        const std::size_t pick = begin + random_() % size;
        drawn[part] = {drawn[pick].first, static_cast<std::uint32_t>(size)};
    }
    drawn.resize(most);
}

bool AsyncSampler::record_waiting(Address thread, ThreadIndex index, bool is_still, bool runs) {
    Loop* loop = find_loop(thread);
    if (loop == nullptr || !loop->has_stem) return false;
    if (!is_still) loop->is_current = false;
    if (!loop->is_current) {
        look(false);
        loop = find_loop(thread);
        if (loop == nullptr) return false;
        // Within the pause after a long look nothing is known anew: the next record stands for this time, too.
        if (!is_fresh_) return true;
        loop->is_current = true;
    }
    draw_leaves(*loop, drawn_);
    const std::uint32_t ticks = std::max(loop->owed_ticks, 1U);
    const nanoseconds owed = loop->owed;
    loop->owed = nanoseconds{0};
    loop->owed_ticks = 0;
    if (drawn_.empty()) return loop->running != kNullAddress;
    if (options_.weight == AsyncWeight::kShare) {
        if (runs) return true;  // what runs is the tick's one sample
        drawn_.front().second = 1;
    }
    waiting_.clear();
    for (const auto& [task, samples] : drawn_) {
        const auto path = place_below(loop->stem, task, was_known(task));
        View* view = path ? view_of(task) : nullptr;
        if (view == nullptr) {
            torn_ += samples;
            continue;
        }
        if (path->is_inferred) inferred_ += samples;
        AsyncStacks::Place place = add_boundary(path->place, *view);
        place = trie_.add_coroutines(place, view->chain, view->chain.steps.size());
        if (sweep_.tasks[task].state == TaskState::kReady) place = trie_.marker(place, "[ready]");
        waiting_.push_back({place, samples});
    }
    std::sort(waiting_.begin(), waiting_.end(),
              [](const Waiting& a, const Waiting& b) { return raw(a.place.stack) < raw(b.place.stack); });
    for (std::size_t i = 0; i < waiting_.size();) {
        std::size_t end = i;
        std::uint32_t samples = 0;
        for (; end < waiting_.size() && waiting_[end].place.stack == waiting_[i].place.stack; ++end) samples += waiting_[end].samples;
        epoch_.add_many(index, waiting_[i].place.stack, waiting_[i].place.names, samples * ticks, samples * owed, now_ - start_);
        task_samples_ += std::uint64_t{samples} * ticks;
        i = end;
    }
    return true;
}

void AsyncSampler::flush(Address thread, ThreadIndex index) {
    Loop* loop = find_loop(thread);
    if (options_.mode != AsyncMode::kAll || loop == nullptr || loop->owed_ticks == 0 || looks_ == 0) return;
    loop->is_current = true;
    record_waiting(thread, index, true, false);
}

void AsyncSampler::forget_codes() {
    for (auto entry = views_.begin(); entry != views_.end(); ++entry) {
        entry.value().chain = {};
        entry.value().seen = 0;
    }
}

void AsyncSampler::add_figures(RunFigures& figures) const {
    figures.task_samples = task_samples_;
    figures.task_looks = looks_;
    figures.tasks_torn = torn_;
    figures.tasks_unlinked = unlinked_;
    figures.tasks_inferred = inferred_;
    figures.most_tasks = most_tasks_;
}

}  // namespace pyprof
