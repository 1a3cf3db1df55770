// SPDX-License-Identifier: Apache-2.0
//
// Native stacks of threads, joined with their Python stacks as nodes of the profile's trie. It copies (a short stop, or
// none where the thread sleeps), unwinds and merges; it never looks up a name of what it shows.
#pragma once

#include "native/stack_copier.h"
#include "native/unwinder.h"
#include "sample/native_merge.h"
#include "sample/native_names.h"
#include "sample/stack_builder.h"
#include "sample/thread_reader.h"

#include <pyprof/profile.h>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace pyprof {

class NativeStacks {
public:
    // All must outlive it; `stopper` may hold nothing (threads that run are not copied then).
    NativeStacks(Target& target, const Layout& layout, StackTable& stacks, NativeAddresses& addresses, ThreadStopper& stopper);

    [[nodiscard]] StackCopier& copier() { return copier_; }
    [[nodiscard]] StackCopy& copy() { return copy_; }
    void refresh();
    void forget_thread(pid_t tid) { copier_.forget_thread(tid); }

    struct Joined {
        StackId stack = kRootStack;
        UnwindEnd end = UnwindEnd::kRoot;  // kRoot: the stack is complete
        std::uint32_t unplaced = 0;
        std::int64_t extra_loops = 0;  // up to 3.10: the interpreter's loops on the C stack, less the Python frames
        bool has_native = true;  // false: only the Python frames of the first part, whose stack fits no other, or no C stack
    };
    // The Python frames of one interpreter on the thread, of the same moment as the copied stack.
    struct Part {
        const ThreadReader* reader = nullptr;
        const StackBuilder::Chain* chain = nullptr;
    };
    // Frames that are none of the program, such as "[gc]"; each may be empty.
    struct Markers {
        std::string_view above_python;
        std::string_view leaf;
    };
    // The copied stack of a thread under its Python frames. Several parts: interpreters, the one entered last first. None:
    // a thread that runs no Python.
    Joined join(pid_t tid, std::span<const Part> parts, const Markers& markers);

    // The same in two steps, for stacks that other frames go into. The stack of what merge() returns is that of the Python
    // frames alone, which is all there is where it has no native ones.
    Joined merge(pid_t tid, std::span<const Part> parts);
    // Of what was merged last: the Python frames [begin, end), counted from the root, on top of `below`, and the native
    // frames among them, and those at the stack's own ends. What stands between `end` and the next frame is left out.
    StackId place(StackId below, std::span<const Part> parts, std::size_t begin, std::size_t end, const Markers& markers);

private:
    void notice_changes();
    void note_jitdumps();
    void find_loop();
    void add_loops_of(const NativeModule& module);
    void list_runs(const ThreadReader& reader);
    StackId python_only(std::span<const Part> parts) const;
    void learn_entries();
    Unwound resume(Unwound unwound);
    [[nodiscard]] bool is_loop(const NativeFrame& frame) const;
    StackId child(StackId parent, FrameKind kind, PathId path, std::uint32_t number, std::string_view name);

    static constexpr std::size_t kMostStacks = 1U << 20;
    static constexpr std::size_t kMostEntries = 4096;

    Target& target_;
    const Layout& layout_;
    StackTable& stacks_;
    NativeAddresses& addresses_;
    Unwinder unwinder_;
    StackCopier copier_;
    StackCopy copy_;
    std::vector<NativeFrame> frames_;
    std::vector<PythonRun> runs_;
    std::vector<std::uint32_t> gaps_;
    std::uint32_t python_frames_ = 0;
    ModuleId noted_ = 0;  // modules that were looked at for jitdumps
    std::uint64_t changes_ = 0;  // of the mapped code, as of when addresses were forgotten last
    Merged merged_;
    // Up to 3.10: the loop's code, by its symbol, which those interpreters export.
    std::vector<std::pair<Address, Address>> loops_;
    bool has_loops_ = false;
    // From the end of the loop's frame down to its entry: the same for every run of one build.
    std::uint64_t entry_distance_ = 0;
    Address loop_lookup_{};
};

}  // namespace pyprof
