// SPDX-License-Identifier: Apache-2.0
//
// Records the tasks that wait, by the last look at all of them. What each record weighs is the time that its loop is owed:
// a look that found too little, or had to be put off, leaves it to the next one. It reads nothing but by look(), and shows
// no task of which this look did not read a whole path.
#include "sample/async_sampler.h"

#include "base/clock.h"

#include <algorithm>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t kMostPoorLooks = 8;
// Where a look needs a stop, and the time for stops is spent: the next one that is made stands for so long.
constexpr nanoseconds kLongestWaitForHold = std::chrono::seconds(4);

}  // namespace

// Leaves with how many each stands for: all of them, or one drawn out of each of most_leaves equal parts.
void AsyncSampler::draw_leaves(const Loop& loop, std::vector<std::pair<TaskIndex, std::uint32_t>>& drawn) {
    drawn.clear();
    for (const TaskIndex i : candidates_) {
        const AsyncTask& task = all_.sweep.tasks[i];
        if (task.thread != loop.thread || task.state == TaskState::kRunning) continue;
        if (std::find(loop.shown.begin(), loop.shown.end(), task.address) != loop.shown.end()) continue;
        drawn.push_back({i, 1});
    }
    const std::size_t waiting = drawn.size();
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

// The stacks of what was drawn; returns how many tasks could not be shown.
std::uint32_t AsyncSampler::place_waiting(const Loop& loop) {
    waiting_.clear();
    std::uint32_t lost = 0;
    for (const auto& [task, samples] : drawn_) {
        const auto path = place_below(loop.stem, all_, task);
        const View* view = path ? view_of(all_, task) : nullptr;
        if (view == nullptr) {
            lost += samples;
            continue;
        }
        if (path->is_inferred) inferred_ += samples;
        AsyncStacks::Place place = add_task(path->place, all_.sweep.tasks[task], *view);
        place = add_frames(place, *view, view->chain.steps.size());
        if (all_.sweep.tasks[task].state == TaskState::kReady) place = trie_.marker(place, "[ready]");
        waiting_.push_back({place, samples});
    }
    std::sort(waiting_.begin(), waiting_.end(),
              [](const Waiting& a, const Waiting& b) { return raw(a.place.stack) < raw(b.place.stack); });
    return lost;
}

void AsyncSampler::note_paid(Address thread) {
    Loop* loop = find_loop(thread);
    if (options_.weight != AsyncWeight::kShare || loop == nullptr || loop->owed_ticks == 0) return;
    loop->owed -= weight_;
    --loop->owed_ticks;
}

bool AsyncSampler::record_waiting(Address thread, ThreadIndex index, bool is_still, bool has_own) {
    Loop* loop = find_loop(thread);
    if (loop == nullptr) return false;
    // By shares that is the tick's one sample. What is owed for other ticks is paid when the loop waits.
    const bool is_paid = options_.weight == AsyncWeight::kShare && has_own;
    if (is_paid) note_paid(thread);
    if (!loop->has_stem) {
        if (!is_still && !is_last_) look();  // a task that was seen to wait tells where the stem ends, as soon as it runs
        return false;
    }
    // Who holds what may take a second look; within a pause what is known stands.
    const auto search_again = all_.sweep.search_again;
    const bool may_search = search_again.count() != 0 && now_ >= next_look_ && monotonic_now() >= search_again;
    if ((!is_still || must_look_again_ || may_search) && !is_last_) loop->is_current = false;
    if (!loop->is_current) {
        look();
        loop = find_loop(thread);
        if (loop == nullptr) return false;
        // Within the pause after a long look nothing is known anew: the next record stands for this time, too.
        if (!is_fresh_) {
            ++loop->paused_ticks;
            return true;
        }
        loop->is_current = true;
    }
    draw_leaves(*loop, drawn_);
    const bool has_tasks = !drawn_.empty() || !loop->shown.empty();
    // A look that missed more than it found says little of the time that it would stand for.
    if (all_.sweep.torn > candidates_.size() && !is_last_) {
        const bool may_wait = ++loop->poor_looks < kMostPoorLooks || (hold_ && loop->owed < kLongestWaitForHold);
        if (may_wait) {
            loop->is_current = false;
            return has_tasks;
        }
    }
    loop->poor_looks = 0;
    if (is_paid) return true;
    const std::uint32_t ticks = std::max(loop->owed_ticks, 1U);
    // Of several loops of a tick the first one counts what the look missed of all.
    if (std::exchange(torn_turn_, turn_) != turn_) torn_ += std::uint64_t{all_.sweep.torn} * ticks;
    const nanoseconds owed = loop->owed;
    loop->owed = nanoseconds{0};
    loop->owed_ticks = loop->paused_ticks = 0;
    if (drawn_.empty()) return has_tasks;
    if (options_.weight == AsyncWeight::kShare) drawn_.front().second = 1;
    torn_ += std::uint64_t{place_waiting(*loop)} * ticks;
    for (std::size_t i = 0; i < waiting_.size();) {
        const AsyncStacks::Place place = waiting_[i].place;
        std::uint32_t samples = 0;
        for (; i < waiting_.size() && waiting_[i].place.stack == place.stack; ++i) samples += waiting_[i].samples;
        epoch_.add_many(index, place.stack, place.names, samples * ticks, samples * owed, now_ - start_);
        task_samples_ += std::uint64_t{samples} * ticks;
    }
    return true;
}

void AsyncSampler::flush(Address thread, ThreadIndex index) {
    Loop* loop = find_loop(thread);
    if (options_.mode != AsyncMode::kAll || loop == nullptr || loop->owed_ticks == 0 || looks_ == 0) return;
    loop->is_current = true;
    is_last_ = true;
    record_waiting(thread, index, true, false);
    is_last_ = false;
}

}  // namespace pyprof
