// SPDX-License-Identifier: Apache-2.0
//
// The stem: a thread's own frames from the root down to its loop, below which all tasks of that loop are put. What a
// callback of the loop calls, and what a greenlet that a task has switched to calls, is no part of it. So it is learnt
// from a sample only where that shows the loop's own frame, or the function that runs a loop written in C (uvloop), or
// where something else proves that its frames end at the loop.
#include "sample/async_sampler.h"

#include <algorithm>
#include <iterator>

namespace pyprof {

namespace {

struct LoopsOwn {
    std::string_view name, file;  // the file's end
};
// What a loop calls for each turn. nest_asyncio has its own, which runs within a task's step, too.
constexpr LoopsOwn kTurns[] = {
    {"_run_once", "asyncio/base_events.py"},
    {"BaseEventLoop._run_once", "asyncio/base_events.py"},
    {"_run_once", "/nest_asyncio.py"},
    {"_patch_loop.<locals>._run_once", "/nest_asyncio.py"},
};
// What runs a loop. Of uvloop, whose run_until_complete() and run_forever() have no frames, these are the last.
constexpr LoopsOwn kEntries[] = {
    {"run_until_complete", "asyncio/base_events.py"},
    {"BaseEventLoop.run_until_complete", "asyncio/base_events.py"},
    {"run_forever", "asyncio/base_events.py"},
    {"BaseEventLoop.run_forever", "asyncio/base_events.py"},
    {"run", "asyncio/runners.py"},
    {"Runner.run", "asyncio/runners.py"},
    {"run", "uvloop/__init__.py"},
    {"run", "anyio/_backends/_asyncio.py"},
    {"Runner.run", "anyio/_backends/_asyncio.py"},
    {"AsyncIOBackend.run", "anyio/_backends/_asyncio.py"},
    {"asyncio_run", "uvicorn/_compat.py"},
    {"run_app", "aiohttp/web.py"},
    {"start", "tornado/platform/asyncio.py"},
    {"BaseAsyncIOLoop.start", "tornado/platform/asyncio.py"},
};

}  // namespace

void AsyncSampler::intern_loops_names() {
    for (const LoopsOwn& own : kTurns) turn_names_.push_back(stacks_.intern_string(own.name));
    for (const LoopsOwn& own : kEntries) entry_names_.push_back(stacks_.intern_string(own.name));
}

bool AsyncSampler::is_turn(const CodeCache::Entry& entry) const {
    for (std::size_t i = 0; i < std::size(kTurns); ++i) {
        if (entry.name == turn_names_[i] && stacks_.string(entry.file).ends_with(kTurns[i].file)) return true;
    }
    return false;
}

bool AsyncSampler::is_entry(const CodeCache::Entry& entry) const {
    for (std::size_t i = 0; i < std::size(kEntries); ++i) {
        if (entry.name == entry_names_[i] && stacks_.string(entry.file).ends_with(kEntries[i].file)) return true;
    }
    return false;
}

// What trio.run() calls in turn: a generator that makes tasks step, and the wait for events.
bool AsyncSampler::is_trios_own(const CodeCache::Entry& entry) const {
    if (std::find(std::begin(trio_names_), std::end(trio_names_), entry.name) == std::end(trio_names_)) return false;
    return stacks_.string(entry.file).find("/trio/_core/") != std::string_view::npos;
}

// uvloop.run() wraps the coroutine that it is given into one of its own, which is machinery. What that one awaits, at the
// step behind; kNoString: it is none of these.
StringId AsyncSampler::wrapped_by(const StackBuilder::Chain& chain, std::size_t step) const {
    if (options_.full_loop_frames || step + 1 >= chain.steps.size()) return kNoString;
    const CodeCache::Entry& entry = codes_.entry(chain.steps[step].code);
    const bool is_wrapper = (entry.name == wrapper_names_[0] || entry.name == wrapper_names_[1]) &&
                            stacks_.string(entry.file).ends_with("uvloop/__init__.py");
    const CodeCache::Entry& awaited = codes_.entry(chain.steps[step + 1].code);
    return is_wrapper && awaited.is_generator ? awaited.name : kNoString;
}

AsyncSampler::Fold AsyncSampler::fold_of(const StackBuilder::Chain& chain) const {
    const std::size_t count = chain.steps.size();
    std::size_t entry_end = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const CodeCache::Entry& entry = codes_.entry(chain.steps[i].code);
        if (is_turn(entry)) return {i, Fold::Kind::kTurn};
        if (is_trios_own(entry)) return {i, Fold::Kind::kTrio};
        // One calls the next: uvloop.run() Runner.run().
        if (is_entry(entry) && (entry_end == 0 || entry_end == i)) entry_end = i + 1;
    }
    return entry_end > 0 ? Fold{entry_end, Fold::Kind::kEntry} : Fold{count, Fold::Kind::kUnknown};
}

bool AsyncSampler::has_generator(const StackBuilder::Chain& chain) const {
    return std::any_of(chain.steps.begin(), chain.steps.end(), [&](const auto& step) { return codes_.entry(step.code).is_generator; });
}

void AsyncSampler::learn_stem(Loop& loop, const StackBuilder::Chain& chain, std::size_t fold, bool with_turn,
                              const PlaceSteps& place_steps) {
    if (fold == 0 || !stacks_.is_proved(chain.steps[fold - 1].path)) return;
    const std::size_t end = with_turn ? std::min(fold + 1, chain.steps.size()) : fold;
    loop.stem = add_steps(trie_.root(), chain, 0, end, place_steps);
    loop.has_stem = true;
    loop.stem_length = fold;
    loop.stem_root = chain.frames.back();
    loop.stem_leaf = chain.frames[chain.frames.size() - fold];
}

// A thread's outermost frame stays. A chain that begins with another one is that of a greenlet, and says nothing of the loop.
bool AsyncSampler::is_foreign(const Loop& loop, const StackBuilder::Chain& chain) {
    return loop.has_stem && (chain.frames.back().address != loop.stem_root.address || chain.frames.back().code != loop.stem_root.code);
}

bool AsyncSampler::has_stem(const Loop& loop, const StackBuilder::Chain& chain) {
    if (!loop.has_stem || is_foreign(loop, chain) || loop.stem_length > chain.frames.size()) return false;
    const RawFrame& leaf = chain.frames[chain.frames.size() - loop.stem_length];
    return leaf.address == loop.stem_leaf.address && leaf.code == loop.stem_leaf.code;
}

// What a sample of the loop's thread says of its stem by itself.
void AsyncSampler::note_stem(Loop& loop, const StackBuilder::Chain& chain, const Fold& fold, const PlaceSteps& place_steps) {
    const bool shows_turn = fold.kind == Fold::Kind::kTurn || fold.kind == Fold::Kind::kTrio;
    if (!shows_turn && is_foreign(loop, chain)) return;
    // The loop is run from elsewhere by now.
    if (!shows_turn && !has_stem(loop, chain)) loop.has_stem = false;
    if (fold.kind != Fold::Kind::kUnknown) learn_stem(loop, chain, fold.step, shows_turn && options_.full_loop_frames, place_steps);
}

void AsyncSampler::learn_idle_stem(Address thread, const StackBuilder::Chain& chain, const PlaceSteps& place_steps) {
    Loop* loop = find_loop(thread);
    if (loop == nullptr || loop->is_hub || chain.steps.empty() || chain.steps.size() != chain.frames.size()) return;
    if (is_foreign(*loop, chain) || fold_of(chain).kind != Fold::Kind::kUnknown) return;
    // A task, or a callback, may wait for events as well.
    if (has_generator(chain) || (has_stem(*loop, chain) && chain.steps.size() > loop->stem_length)) return;
    learn_stem(*loop, chain, chain.steps.size(), false, place_steps);
}

// What blocks in a callback, or in a greenlet, is to be seen: it holds up all tasks.
bool AsyncSampler::is_at_rest(Address thread, const StackBuilder::Chain& chain) const {
    const Loop* loop = find_loop(thread);
    const std::size_t count = chain.steps.size();
    if (loop == nullptr) return false;
    if (count == 0 || count != chain.frames.size()) return true;
    const auto file = [&](std::size_t step) { return stacks_.string(codes_.entry(chain.steps[step].code).file); };
    const auto all_within = [&](std::size_t first, std::string_view directory) {
        while (first < count && file(first).find(directory) != std::string_view::npos) ++first;
        return first == count;
    };
    if (loop->is_hub) return all_within(0, "/gevent/") && is_hubs_own(chain);
    const Fold fold = fold_of(chain);
    switch (fold.kind) {
        case Fold::Kind::kTurn: {
            // _run_once() calls select() of a selector, or a callback by way of Handle._run().
            if (fold.step + 1 == count) return true;
            const std::string_view called = stacks_.string(codes_.entry(chain.steps[fold.step + 1].code).name);
            return called == "select" || called.ends_with(".select");
        }
        case Fold::Kind::kTrio:
            return all_within(fold.step, "/trio/_core/");
        case Fold::Kind::kEntry:
            return fold.step == count;
        case Fold::Kind::kUnknown:
            break;
    }
    return has_stem(*loop, chain) && loop->stem_length == count;
}

// A task that was seen suspended is made to step by its loop alone: what stands above its coroutine is the stem.
bool AsyncSampler::is_stepped_by_loop(const RawFrame& root_frame) const {
    const auto owner = owners_.find(raw(root_frame.address));
    return owner != owners_.end() && owner->second.was_suspended;
}

// The step at which the task begins that runs in the thread; loop.path and loop.root are its.
std::optional<std::size_t> AsyncSampler::find_root_step(Loop& loop, const StackBuilder::Chain& chain, std::size_t first,
                                                        bool is_below_loop, std::uint64_t version) {
    const std::size_t count = chain.steps.size();
    const auto frame_at = [&](std::size_t step) -> const RawFrame& { return chain.frames[count - 1 - step]; };
    if (is_below_loop) return find_root(loop, frame_at(first), version) ? std::optional(first) : std::nullopt;
    // Where the loop's own frame is not known, generators come first within which the loop was run.
    for (std::size_t step = first; step < count; ++step) {
        if (version != 0 && loop.version == version && frame_at(step).address == loop.root_frame) return step;
    }
    for (std::size_t step = first; step < count; ++step) {
        if (!codes_.entry(chain.steps[step].code).is_generator) continue;
        if (step != first && !is_stepped_by_loop(frame_at(step))) continue;
        if (find_root(loop, frame_at(step), version)) return step;
    }
    return std::nullopt;
}

}  // namespace pyprof
