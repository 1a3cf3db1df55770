// SPDX-License-Identifier: Apache-2.0
//
// The sample of a thread that runs a hub of gevent. Its stack is that of one greenlet from its bottom on, and goes below
// those that wait for that greenlet or have spawned it. Whose stack it is is known by its outermost frame, which stays
// where it is for as long as the greenlet lives; of one that was never seen suspended by what the look found to
// run, if no switch came in between. The hub's own stack, and what nobody knows, stays as it is.
#include "sample/async_sampler.h"

#include <algorithm>

namespace pyprof {

// Hub.run is the outermost frame of a hub.
bool AsyncSampler::is_hubs_own(const StackBuilder::Chain& chain) const {
    const CodeCache::Entry& entry = codes_.entry(chain.steps.front().code);
    return stacks_.string(entry.file).ends_with("/gevent/hub.py") && stacks_.string(entry.name).ends_with("run");
}

// The greenlet that ran in the thread when all were looked at last.
Address AsyncSampler::greenlet_seen_running(Address thread) const {
    for (const AsyncTask& task : all_.sweep.tasks) {
        if (task.is_greenlet && task.thread == thread && task.state == TaskState::kRunning) return task.address;
    }
    return kNullAddress;
}

AsyncSampler::Bottom AsyncSampler::read_greenlet_of(Loop& loop, Address greenlet, const RawFrame& frame, std::uint64_t version) {
    const auto read = reader_.read_path(greenlet, loop.interpreter, loop.path.sweep);
    remember(loop.path);
    if (!read) return Bottom::kUnknown;
    loop.root = *read;
    const AsyncTask& task = loop.path.sweep.tasks[loop.root];
    if (task.thread != loop.thread) return Bottom::kUnknown;
    bool is_same_step = false;
    for (const RunningLoop& running : loop.path.sweep.loops) {
        is_same_step |= running.thread == loop.thread && version != 0 && running.context_version == version;
    }
    const auto frames = loop.path.sweep.frames_of(task);
    if (!frames.empty() && (frames.back().address != frame.address || frames.back().code != frame.code)) return Bottom::kUnknown;
    if (is_same_step) {
        // The sample was taken in the midst of a switch.
        if (task.state != TaskState::kRunning) return frames.empty() ? Bottom::kUnknown : Bottom::kOther;
        loop.version = version;
        owners_[raw(frame.address)] = {task.address, task.identity, turn_};
        return Bottom::kOwn;
    }
    return was_known(task, frame.address) ? Bottom::kOwn : Bottom::kUnknown;
}

bool AsyncSampler::find_greenlet(Loop& loop, const RawFrame& frame, std::uint64_t version) {
    if (version != 0 && loop.version == version && loop.root_frame == frame.address) return true;  // no switch since
    loop.version = 0;
    loop.root_frame = frame.address;
    const auto owner = owners_.find(raw(frame.address));
    const Address known = owner == owners_.end() ? kNullAddress : owner->second.task;
    const Bottom bottom = known == kNullAddress ? Bottom::kUnknown : read_greenlet_of(loop, known, frame, version);
    if (bottom != Bottom::kUnknown) return bottom == Bottom::kOwn;
    const Address seen = greenlet_seen_running(loop.thread);
    return seen != kNullAddress && seen != known && read_greenlet_of(loop, seen, frame, version) == Bottom::kOwn;
}

// While it runs, what it has spawned stands below its outermost frame.
void AsyncSampler::learn_bottom(const Loop& loop, const StackBuilder::Chain& chain) {
    View* view = view_of(loop.path, loop.root);
    if (view == nullptr || !stacks_.is_proved(chain.steps.front().path)) return;
    walk_.frames.assign(1, chain.frames.back());
    view->seen = 0;
    if (builder_.build(walk_, view->chain) == StackBuilder::Built::kTorn) view->chain = {};
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice_greenlet(Address thread, const StackBuilder::Chain& chain,
                                                                   std::uint64_t version, const PlaceSteps& place_steps) {
    if (chain.steps.empty() || is_hubs_own(chain)) return std::nullopt;
    Loop* known = find_loop(thread);
    bool is_found = known != nullptr && find_greenlet(*known, chain.frames.back(), version);
    if (!is_found) {
        options_.mode == AsyncMode::kAll ? look() : learn_tasks();
        known = find_loop(thread);  // a look may find further loops
        is_found = known != nullptr && is_fresh_ && find_greenlet(*known, chain.frames.back(), version);
    }
    if (!is_found) {
        ++unlinked_;
        return std::nullopt;
    }
    Loop& loop = *known;
    learn_bottom(loop, chain);
    const auto path = place_below(loop.stem, loop.path, loop.root);
    const View* view = path ? view_of(loop.path, loop.root) : nullptr;
    if (view == nullptr) {
        ++unlinked_;
        return std::nullopt;
    }
    for (const TaskIndex task : path_.tasks) loop.shown.push_back(loop.path.sweep.tasks[task].address);
    AsyncStacks::Place place = add_task(path->place, loop.path.sweep.tasks[loop.root], *view);
    place = add_steps(place, chain, 0, chain.steps.size(), place_steps);
    if (path->is_inferred) ++inferred_;
    return Spliced{place, path->is_inferred};
}

}  // namespace pyprof
