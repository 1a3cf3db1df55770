// SPDX-License-Identifier: Apache-2.0
//
// Threads of pools: what they do hangs below the task that gave it to them. The thread may have taken the next piece of
// work between its sample and the look at whom it works for. So a sample is linked only if the same piece was there
// at the look before, too, and the loop has called nothing since: then nobody else can have come in between. Where
// the loop did move, the frame's own copy in the sample must name that piece.
#include "sample/async_sampler.h"

#include "python/frame_locals.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pyprof {

namespace {

// The call of work stands near a thread's root: _bootstrap, _bootstrap_inner, run, _worker, run.
constexpr std::size_t kDeepestCall = 16;
constexpr std::size_t kMostKnownWork = 1U << 12;

std::uint64_t counted_by(const std::vector<RunningLoop>& loops, Address thread) {
    for (const RunningLoop& loop : loops) {
        if (loop.thread == thread && loop.is_still) return loop.context_version;
    }
    return 0;
}

}  // namespace

bool AsyncSampler::note_worker(Address thread, const StackBuilder::Chain& chain, ThreadReader& reader) {
    if (!reader_.is_found() || chain.steps.size() != chain.frames.size()) return false;
    const std::size_t count = chain.steps.size();
    for (std::size_t i = 0; i < std::min(count, kDeepestCall); ++i) {
        const CodeCache::Entry& entry = codes_.entry(chain.steps[i].code);
        if (std::find(std::begin(worker_names_), std::end(worker_names_), entry.name) == std::end(worker_names_)) continue;
        const auto kind = worker_kind(stacks_.string(entry.name), stacks_.string(entry.file));
        if (!kind) continue;
        Worker worker{{thread, chain.frames[count - 1 - i], *kind}, kNullAddress, i + 1};
        // What the pool itself calls in between is machinery, too (WorkerContext.run, 3.14 on).
        while (worker.first < count && codes_.entry(chain.steps[worker.first].code).file == entry.file) ++worker.first;
        // Between two pieces of work the frame still holds the last one.
        const bool is_between = *kind == WorkerFrame::Kind::kAnyio && worker.first < count &&
                                stacks_.string(codes_.entry(chain.steps[worker.first].code).file).ends_with("/queue.py");
        if (is_between) return false;
        worker.item = item_in_copy(worker.frame, reader);
        workers_.push_back(worker);
        return true;
    }
    return false;
}

// The variable that holds the piece of work, as it stands in the sample's own bytes: those of the data stack behind the
// frame. It is the first one of a pool's, `self`.
Address AsyncSampler::item_in_copy(const WorkerFrame& worker, ThreadReader& reader) {
    if (!shape_.on_data_stack()) return kNullAddress;
    std::size_t variable = 0;
    if (worker.kind == WorkerFrame::Kind::kAnyio) {
        if (anyio_run_ != worker.frame.code) {
            const auto found = find_local(memory_, layout_, worker.frame.code, "future");
            if (!found || *found >= kMostLocals) return kNullAddress;
            anyio_run_ = worker.frame.code;
            anyio_future_ = *found;
        }
        variable = anyio_future_;
    }
    const Address held = worker.frame.address + at(layout_.frame.localsplus) + variable * 8;
    const std::byte* copy = reader.copy_of(held - shape_.begin(), false);
    return copy == nullptr ? kNullAddress : Address{load<std::uint64_t>(copy, 0) & layout_.pointer_mask};
}

bool AsyncSampler::is_worker(Address thread) const {
    return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) { return worker.frame.thread == thread; });
}

bool AsyncSampler::needs_stem(Address thread) const {
    const Loop* loop = find_loop(thread);
    return loop != nullptr && !loop->has_stem && (loop->is_stem_wanted || !known_work_.empty());
}

// `version`: what the loop had counted while the work was looked up.
bool AsyncSampler::is_sure_work(const Worker& worker, const KnownWork& before, const KnownWork& now, std::uint64_t version) const {
    const bool is_same = before.work == now.work && before.coroutine == now.coroutine && before.number == now.number;
    if (!is_same || now.version == 0 || version != now.version) return false;
    return before.version == now.version || worker.item == now.work.item;
}

std::optional<AsyncSampler::Spliced> AsyncSampler::splice_worker(Address thread, const StackBuilder::Chain& chain) {
    const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& one) { return one.frame.thread == thread; });
    const auto state = std::find_if(threads_.threads.begin(), threads_.threads.end(),
                                    [&](const ThreadState& one) { return one.address == thread; });
    if (worker == workers_.end() || state == threads_.threads.end() || worker->first >= chain.steps.size()) return std::nullopt;
    const auto work = reader_.find_work(worker->frame, state->interpreter, work_loops_);
    if (!work) {
        known_work_.erase(raw(thread));  // it was given by no task
        return std::nullopt;
    }
    if (known_work_.size() > kMostKnownWork) known_work_.clear();
    const auto index = reader_.read_path(work->task, state->interpreter, given_.sweep);
    remember(given_);
    const AsyncTask* task = index ? &given_.sweep.tasks[*index] : nullptr;
    if (task == nullptr || task->waits_for != work->through) {
        ++unlinked_;
        return std::nullopt;
    }
    const KnownWork now{*work, task->coroutine, task->name.number, counted_by(given_.sweep.loops, task->thread)};
    const KnownWork before = std::exchange(known_work_[raw(thread)], now);
    const Loop* loop = find_loop(task->thread);
    const bool is_sure = is_sure_work(*worker, before, now, counted_by(work_loops_, task->thread));
    const auto path = is_sure && loop != nullptr && loop->has_stem ? place_below(loop->stem, given_, *index) : std::nullopt;
    const View* view = path ? view_of(given_, *index) : nullptr;
    if (view == nullptr) {
        ++unlinked_;
        return std::nullopt;
    }
    AsyncStacks::Place place = add_boundary(path->place, view->label);
    place = add_frames(place, *view, view->chain.steps.size());
    place = trie_.marker(place, "[executor]");
    place = trie_.add_steps(place, chain, options_.full_loop_frames ? 0 : worker->first, chain.steps.size());
    if (path->is_inferred) ++inferred_;
    return Spliced{place, path->is_inferred};
}

}  // namespace pyprof
