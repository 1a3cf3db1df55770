// SPDX-License-Identifier: Apache-2.0
//
// The sample of a loop's thread in which a greenlet runs that a task has switched to, as SQLAlchemy does it. Its frames end at
// the greenlet's outermost one. Those of the loop and the task stand in the thread's main greenlet; they go below it
// if nothing was switched to since before the sample was copied. By the same rule a greenlet stands between a coroutine that
// has called it and the one that it has handed over, which runs.
#include "sample/async_sampler.h"

#include <algorithm>

namespace pyprof {

// loop.callers, as they stood when the loop had counted `version`.
bool AsyncSampler::find_callers(Loop& loop, std::uint64_t version) {
    if (version == 0) return false;
    if (loop.callers_version == version) return true;  // still in that step
    loop.callers_version = 0;
    const RunningLoop* running = reader_.loop_of(loop.thread);
    if (running == nullptr || !reader_.read_callers(*running, loop.interpreter, version, walk_.frames)) return false;
    if (!build_as_read(loop.callers) || is_foreign(loop, loop.callers)) return false;  // those of another thread
    builder_.prove(builder_.path_of(loop.callers));
    epoch_.note_proofs(false);
    loop.callers_version = version;
    return true;
}

// walk_, whose frames must still be there.
bool AsyncSampler::build_as_read(StackBuilder::Chain& chain) {
    const bool is_whole = builder_.build(walk_, chain) != StackBuilder::Built::kTorn;
    if (is_whole && (chain.read_at.empty() || frames_still_stand(chain))) return true;
    chain = {};
    return false;
}

// loop.between, for the coroutines of the task that runs.
void AsyncSampler::find_between(Loop& loop, const StackBuilder::Chain& chain, std::size_t first, std::uint64_t version) {
    const RunningLoop* running = reader_.loop_of(loop.thread);
    const std::size_t count = chain.steps.size();
    coroutines_.clear();
    if (running != nullptr && reader_.knows_greenlets(*running, loop.interpreter)) {
        for (std::size_t step = first; step < count && codes_.entry(chain.steps[step].code).is_generator; ++step) {
            coroutines_.push_back(chain.frames[count - 1 - step]);
        }
    }
    const auto is_same = [](const RawFrame& a, const RawFrame& b) { return a.address == b.address && a.code == b.code; };
    const bool are_same = std::equal(coroutines_.begin(), coroutines_.end(), loop.coroutines.begin(), loop.coroutines.end(), is_same);
    if (version != 0 && loop.between_version == version && are_same) return;
    loop.between.clear();
    loop.between_version = version;
    loop.coroutines = coroutines_;
    if (coroutines_.size() < 2) return;
    if (version == 0 || !reader_.read_between(*running, loop.interpreter, version, coroutines_, between_)) {
        loop.between_version = 0;
        return;
    }
    for (const AsyncioReader::Between& found : between_) {
        walk_.frames = found.frames;
        loop.between.push_back({found.inner, {}});
        if (!build_as_read(loop.between.back().chain)) loop.between.pop_back();
    }
}

// add_steps(), with the frames of greenlets between the coroutines, of which the first stands at `first`.
AsyncStacks::Place AsyncSampler::add_running(Loop& loop, AsyncStacks::Place place, const StackBuilder::Chain& chain, std::size_t first,
                                             std::size_t begin, std::size_t end, const PlaceSteps& place_steps) {
    for (Between& between : loop.between) {
        const std::size_t step = first + between.inner;
        if (step <= begin || step >= end) continue;
        epoch_.mark_used(between.chain);
        place = add_steps(place, chain, begin, step, place_steps);
        place = trie_.add_coroutines(place, between.chain, 0, between.chain.steps.size());
        begin = step;
    }
    return add_steps(place, chain, begin, end, place_steps);
}

// After find_callers().
std::optional<AsyncSampler::Spliced> AsyncSampler::splice_switched(Address thread, const StackBuilder::Chain& chain,
                                                                   std::uint64_t version, const PlaceSteps& place_steps) {
    Loop& loop = *find_loop(thread);
    epoch_.mark_used(loop.callers);
    auto spliced = splice_task(loop, loop.callers, version, {});
    if (!spliced) {
        // Of a callback, or a task that is not known: below the loop's own frames. A look for further loops may have moved them.
        const StackBuilder::Chain& callers = find_loop(thread)->callers;
        spliced = Spliced{trie_.add_steps(trie_.root(), callers, 0, callers.steps.size())};
    }
    spliced->place = add_steps(spliced->place, chain, 0, chain.steps.size(), place_steps);
    return spliced;
}

}  // namespace pyprof
