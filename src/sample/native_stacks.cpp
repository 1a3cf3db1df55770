// SPDX-License-Identifier: Apache-2.0
#include "sample/native_stacks.h"

#include <algorithm>

namespace pyprof {

NativeStacks::NativeStacks(Target& target, const Layout& layout, StackTable& stacks, NativeAddresses& addresses,
                           ThreadStopper& stopper)
    : target_(target),
      layout_(layout),
      stacks_(stacks),
      addresses_(addresses),
      unwinder_(target),
      copier_(target.memory(), unwinder_.modules(), stopper) {
    unwinder_.refresh();
    // CPython 3.15's JIT keeps the frame pointer; that of 3.14 does not.
    unwinder_.trust_frame_pointer_in_anonymous_code(layout.version.minor >= 15);
}

void NativeStacks::refresh() {
    if (unwinder_.refresh()) addresses_.forget_addresses();
}

void NativeStacks::find_loop() {
    has_loops_ = true;
    const ModuleMap& modules = unwinder_.modules();
    for (ModuleId id = 0; id < modules.size(); ++id) {
        const NativeModule& module = modules.module(id);
        if (!module.file || !module.bias) continue;
        const auto symbol = module.file->find_symbol("_PyEval_EvalFrameDefault");
        if (!symbol) continue;
        const Address start = module.bias->in_memory(symbol->address);
        loops_.emplace_back(start, start + symbol->size);
        if (const auto cold = module.file->find_symbol("_PyEval_EvalFrameDefault.cold")) {
            const Address cold_start = module.bias->in_memory(cold->address);
            loops_.emplace_back(cold_start, cold_start + cold->size);
        }
    }
}

bool NativeStacks::is_loop(const NativeFrame& frame) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const auto& range) { return is_within(frame.lookup(), range.first, range.second); });
}

// From 3.12 on the entry frames that the walk met; in 3.11 the cframes, which the copied stack holds.
void NativeStacks::list_runs(const ThreadReader& reader) {
    runs_.clear();
    const Walk& walk = reader.walk();
    const auto count = static_cast<std::uint32_t>(walk.frames.size());
    std::uint32_t done = 0;
    if (layout_.frame_root == FrameRoot::kThreadCurrent || !walk.entries.empty()) {
        for (const WalkEntry& entry : walk.entries) {
            runs_.push_back({entry.address, entry.frames - done});
            done = entry.frames;
        }
    } else if (layout_.frame_root == FrameRoot::kThreadCframe) {
        Address cframe{load<std::uint64_t>(reader.thread_bytes(), static_cast<std::uint64_t>(layout_.thread.cframe))};
        for (std::uint32_t i = 0; i < count; ++i) {
            if (!walk.frames[i].through_c) continue;
            runs_.push_back({copy_.holds(cframe, 8) ? cframe : kNullAddress, i + 1 - done});
            done = i + 1;
            const auto previous = copy_.word_at(cframe + static_cast<std::uint64_t>(layout_.cframe.previous));
            cframe = Address{previous.value_or(0)};
        }
    }
    if (done < count) runs_.push_back({kNullAddress, count - done});
}

void NativeStacks::learn_entries() {
    std::size_t from = 0;
    for (const PythonRun& run : runs_) {
        for (std::size_t i = from; i < frames_.size(); ++i) {
            const NativeFrame& frame = frames_[i];
            if (frame.cfa == kNullAddress || !is_within(run.entry, frame.sp, frame.cfa)) continue;
            if (frame.is_call_site && entry_distance_ == 0) {
                entry_distance_ = distance(run.entry, frame.cfa);
                loop_lookup_ = frame.lookup();
            }
            from = i;
            break;
        }
    }
}

// Code that was made at run time can't be unwound. The next loop below it is found by its entry, which lies at a
// distance from the end of the loop's frame that is the same in all of them.
Unwound NativeStacks::resume(Unwound unwound) {
    if (unwound.is_complete() || entry_distance_ == 0 || frames_.empty()) return unwound;
    const Address reached = std::max(frames_.back().sp, frames_.back().cfa);
    for (const PythonRun& run : runs_) {
        if (run.entry == kNullAddress || raw(run.entry) < raw(reached)) continue;
        const Address cfa = run.entry + entry_distance_;
        gap_ = static_cast<std::uint32_t>(frames_.size());
        NativeFrame loop;
        loop.pc = loop_lookup_ + 1;
        loop.is_call_site = true;
        loop.sp = run.entry;
        loop.cfa = cfa;
        loop.module = unwinder_.modules().find(loop_lookup_);
        frames_.push_back(loop);
        return unwinder_.resume(copy_, loop_lookup_, cfa, frames_);
    }
    return unwound;
}

StackId NativeStacks::child(StackId parent, FrameKind kind, PathId path, std::uint32_t number, std::string_view name) {
    Frame frame;
    frame.kind = kind;
    frame.name = name.empty() ? kNoString : stacks_.intern_string(name);
    frame.line = static_cast<std::int32_t>(number);
    return stacks_.intern_child(parent, stacks_.intern_frame(frame), path);
}

NativeStacks::Joined NativeStacks::join(pid_t tid, const ThreadReader* reader, const StackBuilder::Chain* chain,
                                        std::string_view marker) {
    Joined joined;
    frames_.clear();
    runs_.clear();
    gap_ = 0;
    Unwound unwound = unwinder_.unwind(copy_, frames_);
    copier_.learn(tid, unwound, frames_);
    const auto python_frames = reader == nullptr ? 0U : static_cast<std::uint32_t>(reader->walk().frames.size());
    if (reader != nullptr) {
        list_runs(*reader);
        learn_entries();
        unwound = resume(unwound);
    }
    joined.is_complete = unwound.is_complete();
    const NativeStack native{frames_, joined.is_complete, gap_};
    if (reader != nullptr && layout_.frame_root == FrameRoot::kThreadFrame) {
        if (!has_loops_) find_loop();
        std::vector<bool> loops;
        for (const NativeFrame& frame : frames_) loops.push_back(is_loop(frame));
        merge_by_count(native, loops, python_frames, merged_);
    } else {
        merge_by_address(native, runs_, merged_);
    }
    joined.unplaced = merged_.unplaced;
    // A stack whose middle was cut has fewer steps than frames.
    const bool fits = chain == nullptr || chain->steps.size() == python_frames;
    if (!fits || stacks_.stack_count() >= kMostStacks) {
        joined.stack = chain == nullptr || chain->steps.empty() ? kRootStack : chain->steps.back().stack;
        return joined;
    }
    StackId stack = kRootStack;
    StackId python = kRootStack;  // the node of the last Python frame in the stack without native ones
    PathId path = kRootPath;
    std::uint32_t left = python_frames;
    for (auto frame = merged_.frames.rbegin(); frame != merged_.frames.rend(); ++frame) {
        switch (frame->kind) {
            case MergedFrame::Kind::kLost:
                stack = child(stack, FrameKind::kMarker, path, 0, "[native frames lost]");
                break;
            case MergedFrame::Kind::kNative: {
                const std::uint32_t number =
                    addresses_.note(frames_[frame->index], frame->runs_python, unwinder_.modules(), target_.memory());
                stack = child(stack, FrameKind::kNative, path, number, {});
                break;
            }
            case MergedFrame::Kind::kPython: {
                const StackBuilder::Step& step = chain->steps[python_frames - 1 - frame->index];
                if (step.stack != python) stack = stacks_.intern_child(stack, stacks_.node(step.stack).frame, step.path);
                python = step.stack;
                path = step.path;
                --left;
                break;
            }
        }
        if (left == 0 && !marker.empty()) {
            stack = child(stack, FrameKind::kMarker, path, 0, marker);
            marker = {};
        }
    }
    joined.stack = stack;
    return joined;
}

}  // namespace pyprof
