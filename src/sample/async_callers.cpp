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
    if (loop.callers_version == version) return true;  // in the same step
    loop.callers_version = 0;
    walk_.frames.clear();
    for (const RunningLoop& running : reader_.loops()) {
        if (running.thread == loop.thread && !reader_.read_callers(running, loop.interpreter, version, walk_.frames)) return false;
    }
    if (walk_.frames.empty()) return false;
    const bool is_torn = builder_.build(walk_, loop.callers) == StackBuilder::Built::kTorn;
    if (is_torn || (!loop.callers.read_at.empty() && !frames_still_stand(loop.callers))) {
        loop.callers = {};
        return false;
    }
    builder_.prove(builder_.path_of(loop.callers));
    epoch_.note_proofs(false);
    loop.callers_version = version;
    return true;
}

// loop.between, for the coroutines of the task that runs.
void AsyncSampler::find_between(Loop& loop, const StackBuilder::Chain& chain, std::size_t first, std::uint64_t version) {
    const auto running = std::find_if(reader_.loops().begin(), reader_.loops().end(), [&](const RunningLoop& one) { return one.thread == loop.thread; });
    const std::size_t count = chain.steps.size();
    const auto is_coroutine = [&](std::size_t step) { return codes_.entry(chain.steps[step].code).is_generator; };
    const auto frame_at = [&](std::size_t step) -> const RawFrame& { return chain.frames[count - 1 - step]; };
    if (version == 0 || running == reader_.loops().end() || !reader_.knows_greenlets(*running, loop.interpreter)) {
        loop.between.clear();
        loop.between_version = 0;
        return;
    }
    std::vector<Address>& frames = between_frames_;
    frames.clear();
    for (std::size_t step = first; step < count && is_coroutine(step); ++step) frames.push_back(frame_at(step).address);
    if (loop.between_version == version && loop.between_frames == frames) return;  // still in that step, and at those
    loop.between.clear();
    loop.between_version = version;
    loop.between_frames = frames;
    for (std::size_t step = first + 1; step < first + frames.size(); ++step) {
        const bool stood = reader_.read_between(*running, loop.interpreter, version, frame_at(step - 1), frame_at(step), walk_.frames);
        if (!stood) break;
        if (walk_.frames.empty()) continue;
        std::reverse(walk_.frames.begin(), walk_.frames.end());
        loop.between.push_back({step, {}});
        StackBuilder::Chain& between = loop.between.back().chain;
        const bool is_torn = builder_.build(walk_, between) == StackBuilder::Built::kTorn;
        if (is_torn || (!between.read_at.empty() && !frames_still_stand(between))) loop.between.pop_back();
    }
}

AsyncStacks::Place AsyncSampler::add_running(Loop& loop, AsyncStacks::Place place, const StackBuilder::Chain& chain, std::size_t begin,
                                             std::size_t end, const PlaceSteps& place_steps) {
    for (Between& between : loop.between) {
        if (between.step <= begin || between.step >= end) continue;
        epoch_.mark_used(between.chain);
        place = add_steps(place, chain, begin, between.step, place_steps);
        place = trie_.add_coroutines(place, between.chain, 0, between.chain.steps.size());
        begin = between.step;
    }
    return add_steps(place, chain, begin, end, place_steps);
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice_switched(Loop& loop, const StackBuilder::Chain& chain,
                                                                   std::uint64_t version, const PlaceSteps& place_steps) {
    if (!find_callers(loop, version)) {
        ++unlinked_;
        learn_tasks();  // one of them may wait within a greenlet
        return std::nullopt;
    }
    epoch_.mark_used(loop.callers);
    auto spliced = splice_task(loop, loop.callers, version, {});
    // Of a callback, or a task that is not known: below the loop's own frames.
    if (!spliced) spliced = Spliced{trie_.add_steps(trie_.root(), loop.callers, 0, loop.callers.steps.size())};
    spliced->place = add_steps(spliced->place, chain, 0, chain.steps.size(), place_steps);
    return spliced;
}

}  // namespace pyprof
