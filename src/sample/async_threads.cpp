// SPDX-License-Identifier: Apache-2.0
//
// Threads that wait for a task, as those do that have called run_coroutine_threadsafe().result(): the task stands below
// such a thread's frames. That is shown only where the thread has slept from before its frames were copied until after
// the task was read, which then was still to fill the very future for which the thread's frame waits.
#include "sample/async_sampler.h"

#include "python/thread_waits.h"

#include <algorithm>

namespace pyprof {

namespace {

// After so many ticks without a task for which a thread may wait, sleeping threads are no longer wanted.
constexpr std::uint64_t kForgetFillingAfter = 1024;

}  // namespace

bool AsyncSampler::wants_sleepers() const {
    return filling_turn_ != 0 && turn_ - filling_turn_ < kForgetFillingAfter;
}

void AsyncSampler::note_sleeper(Address thread, const StackBuilder::Chain& chain) {
    std::erase_if(sleepers_, [&](const Sleeper& sleeper) { return sleeper.thread == thread; });
    const std::size_t count = chain.steps.size();
    if (count != chain.frames.size()) return;
    const auto wait = find_future_wait(count, [&](std::size_t place) {
        const CodeCache::Entry& entry = codes_.entry(chain.steps[count - 1 - place].code);
        return CalledFunction{stacks_.string(entry.name), stacks_.string(entry.file)};
    });
    if (!wait || !stacks_.is_proved(chain.steps[count - 1 - *wait].path)) return;
    const auto future = read_awaited_future(memory_, layout_, chain.frames[*wait]);
    // It may have gone on, before its frame was read a second time.
    if (!future || !can_be_object(*future) || !sleeps_on_ || !sleeps_on_(thread)) return;
    sleepers_.push_back({thread, *future, trie_.add_steps(trie_.root(), chain, 0, count - *wait), turn_});
}

void AsyncSampler::forget_woken(const std::function<bool(Address)>& is_still_asleep) {
    std::erase_if(sleepers_, [&](const Sleeper& sleeper) { return sleeper.noted_turn != turn_ && !is_still_asleep(sleeper.thread); });
}

// One that waits for the task's end. Several have it in turn.
const AsyncSampler::Sleeper* AsyncSampler::sleeper_for(const AsyncTask& task) const {
    if (task.fills == kNullAddress) return nullptr;
    const auto waits = [&](const Sleeper& sleeper) { return sleeper.future == task.fills; };
    const auto waiting = static_cast<std::uint64_t>(std::count_if(sleepers_.begin(), sleepers_.end(), waits));
    if (waiting == 0) return nullptr;
    std::uint64_t left = turn_ % waiting;
    for (const Sleeper& sleeper : sleepers_) {
        if (waits(sleeper) && left-- == 0) return sleeps_on_(sleeper.thread) ? &sleeper : nullptr;
    }
    return nullptr;
}

// Below which a path stands whose uppermost task is `top`: not the thread of `task` where a task of another loop waits for
// that one. Nothing where it is not known yet.
std::optional<AsyncStacks::Place> AsyncSampler::stem_of(const AsyncTask& top, const AsyncTask& task, AsyncStacks::Place stem) {
    if (top.thread == task.thread) return stem;
    if (top.thread == kNullAddress) return trie_.root();  // its loop does not run
    Loop* loop = find_loop(top.thread);
    if (loop == nullptr) return std::nullopt;
    loop->is_stem_wanted = true;
    if (!loop->has_stem) return std::nullopt;
    return loop->stem;
}

}  // namespace pyprof
