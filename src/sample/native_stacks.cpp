// SPDX-License-Identifier: Apache-2.0
#include "sample/native_stacks.h"

#include "native/loop_code.h"
#include "target/proc_files.h"

#include <fmt/format.h>

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
    refresh();
    // CPython 3.15's JIT keeps the frame pointer; that of 3.14 does not.
    unwinder_.trust_frame_pointer_in_anonymous_code(layout.version.minor >= 15);
}

void NativeStacks::refresh() {
    unwinder_.refresh();
    notice_changes();
}

// The unwinder looks at the mappings anew on its own, too, where an address lies in none.
void NativeStacks::notice_changes() {
    if (changes_ == unwinder_.modules().changes()) return;
    changes_ = unwinder_.modules().changes();
    addresses_.forget_addresses();
    note_jitdumps();
}

// A program that writes one maps its beginning as code, so that a profiler sees where it is
// (tools/perf/Documentation/jitdump-specification.txt).
void NativeStacks::note_jitdumps() {
    const ModuleMap& modules = unwinder_.modules();
    for (; noted_ < modules.size(); ++noted_) {
        if (MadeCode::is_jitdump(modules.module(noted_).path)) addresses_.note_jitdump(modules.module(noted_).path);
    }
}

void NativeStacks::add_loops_of(const NativeModule& module) {
    if (!module.file || !module.bias) return;
    DebugSearch search;
    search.roots = {fmt::format("/proc/{}/root", living_thread_of(target_.pid())), ""};
    for (const ModuleFile::Section& part : find_loop_code(*module.file, module.path, search)) {
        const Address start = module.bias->in_memory(part.address);
        loops_.emplace_back(start, start + part.size);
    }
}

// The symbols of hundreds of libraries are not searched where the interpreter's file is known by its name.
void NativeStacks::find_loop() {
    has_loops_ = true;
    const ModuleMap& modules = unwinder_.modules();
    const auto search = [&](bool by_name) {
        for (ModuleId id = 0; id < modules.size(); ++id) {
            const std::string& path = modules.module(id).path;
            const bool is_likely = path.find("python", path.rfind('/') + 1) != std::string::npos;
            if (is_likely == by_name) add_loops_of(modules.module(id));
        }
    };
    search(true);
    if (loops_.empty()) search(false);
}

bool NativeStacks::is_loop(const NativeFrame& frame) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const auto& range) { return is_within(frame.lookup(), range.first, range.second); });
}

// From 3.12 on the entry frames that the walk met; in 3.11 the cframes, which the copied stack holds.
void NativeStacks::list_runs(const ThreadReader& reader) {
    const Walk& walk = reader.walk();
    const auto count = static_cast<std::uint32_t>(walk.frames.size());
    std::uint32_t done = 0;
    if (layout_.frame_root == FrameRoot::kThreadCurrent || !walk.entries.empty()) {
        for (const WalkEntry& entry : walk.entries) {
            runs_.push_back({entry.address, entry.frames - done});
            done = entry.frames;
        }
    } else if (layout_.frame_root == FrameRoot::kThreadCframe) {
        Address cframe = reader.leaf_cframe();
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
// distance from the end of the loop's frame that is the same in all of them. Each loop may run such code.
Unwound NativeStacks::resume(Unwound unwound) {
    if (entry_distance_ == 0) return unwound;
    for (const PythonRun& run : runs_) {
        if (unwound.is_complete() || frames_.empty()) break;
        const Address reached = std::max(frames_.back().sp, frames_.back().cfa);
        if (run.entry == kNullAddress || raw(run.entry) < raw(reached)) continue;
        gaps_.push_back(static_cast<std::uint32_t>(frames_.size()));
        NativeFrame loop;
        loop.pc = loop_lookup_ + 1;
        loop.is_call_site = true;
        loop.sp = run.entry;
        loop.cfa = run.entry + entry_distance_;
        loop.module = unwinder_.modules().find(loop_lookup_);
        frames_.push_back(loop);
        unwound = unwinder_.resume(copy_, loop_lookup_, loop.cfa, frames_);
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

StackId NativeStacks::python_only(std::span<const Part> parts) const {
    const bool has_frames = !parts.empty() && !parts.front().chain->steps.empty();
    return has_frames ? parts.front().chain->steps.back().stack : kRootStack;
}

NativeStacks::Joined NativeStacks::join(pid_t tid, std::span<const Part> parts, const Markers& markers) {
    Joined joined = merge(tid, parts);
    if (joined.has_native) joined.stack = place(kRootStack, parts, 0, python_frames_, markers);
    return joined;
}

NativeStacks::Joined NativeStacks::merge(pid_t tid, std::span<const Part> parts) {
    Joined joined;
    frames_.clear();
    runs_.clear();
    gaps_.clear();
    Unwound unwound = unwinder_.unwind(copy_, frames_);
    copier_.learn(tid, unwound, frames_);
    python_frames_ = 0;
    bool fits = true;  // a stack whose middle was cut has fewer steps than frames
    for (const Part& part : parts) {
        const std::size_t count = part.reader->walk().frames.size();
        python_frames_ += static_cast<std::uint32_t>(count);
        fits = fits && part.chain->steps.size() == count;
        list_runs(*part.reader);
    }
    learn_entries();
    unwound = resume(unwound);
    notice_changes();
    joined.end = unwound.end;
    const NativeStack native{frames_, unwound.is_complete(), gaps_};
    if (!parts.empty() && layout_.frame_root == FrameRoot::kThreadFrame) {
        if (!has_loops_) find_loop();
        std::vector<bool> loops;
        for (const NativeFrame& frame : frames_) loops.push_back(is_loop(frame));
        merge_by_count(native, loops, python_frames_, merged_);
        joined.extra_loops = std::count(loops.begin(), loops.end(), true) - static_cast<std::int64_t>(python_frames_);
    } else {
        merge_by_address(native, runs_, merged_);
    }
    joined.unplaced = merged_.unplaced;
    // Python frames of a loop that is nowhere on a whole C stack are another's: a greenlet that is just being switched to.
    // Up to 3.10 one loop runs each frame. Where fewer are known, which frame is whose is not.
    const bool is_foreign = parts.size() == 1 && joined.unplaced > 0 && unwound.is_complete() && gaps_.empty();
    if (!fits || is_foreign || stacks_.stack_count() >= kMostStacks) {
        joined.stack = python_only(parts);
        joined.has_native = false;
    }
    return joined;
}

StackId NativeStacks::place(StackId stack, std::span<const Part> parts, std::size_t begin, std::size_t end,
                            const Markers& markers) {
    StackId python = kRootStack;  // the node of the last Python frame in the stack without native ones
    PathId path = kRootPath;
    std::size_t done = 0;             // Python frames
    std::size_t part = parts.size();  // the last one that was begun; they are taken from the root on
    std::size_t step_index = 0;
    const bool has_leaf = end == python_frames_;
    // What stands below the first Python frame belongs to the thread's root: not below the frames of another greenlet.
    const bool has_root = begin == 0 && stack == kRootStack;
    const auto mark_end = [&] {
        if (has_leaf && done == end && !markers.above_python.empty()) stack = child(stack, FrameKind::kMarker, path, 0, markers.above_python);
    };
    if (python_frames_ == 0) mark_end();
    for (auto frame = merged_.frames.rbegin(); frame != merged_.frames.rend(); ++frame) {
        if (frame->kind == MergedFrame::Kind::kPython) {
            while (part == parts.size() || step_index == parts[part].chain->steps.size()) {
                --part;
                step_index = 0;
                python = kRootStack;
            }
            const StackBuilder::Step& step = parts[part].chain->steps[step_index++];
            const bool is_wanted = done >= begin && done < end && step.stack != python;  // else it is hidden
            if (is_wanted) stack = stacks_.intern_child(stack, stacks_.node(step.stack).frame, step.path);
            python = step.stack;
            path = step.path;
            if (++done == python_frames_) mark_end();
            continue;
        }
        if ((done <= begin && done > 0) || (done >= end && !has_leaf) || (done == 0 && !has_root)) continue;
        const bool is_lost = frame->kind == MergedFrame::Kind::kLost;
        // Code that is mapped nowhere, as far as is known, has no name. The stack ends there, which is marked below it.
        if (!is_lost && frames_[frame->index].module == kNoModule) continue;
        const std::uint32_t number =
            is_lost ? 0 : addresses_.note(frames_[frame->index], frame->runs_python, unwinder_.modules(), target_.memory());
        stack = number == 0 ? child(stack, FrameKind::kMarker, path, 0, "[native frames lost]") : child(stack, FrameKind::kNative, path, number, {});
    }
    if (has_leaf && !markers.leaf.empty()) stack = child(stack, FrameKind::kMarker, path, 0, markers.leaf);
    return stack;
}

}  // namespace pyprof
