// SPDX-License-Identifier: Apache-2.0
#include "sample/dump_native.h"

namespace pyprof {

DumpNative::DumpNative(Target& target, const Layout& layout, StackTable& stacks, const DumpOptions& options)
    : target_(target),
      stacks_(stacks),
      no_stopper_(TracedProcess{}),
      addresses_(target.pid(), NativeNamingOptions{options.native_all}),
      native_(target, layout, stacks, addresses_, no_stopper_) {}

void DumpNative::copy_threads(std::span<const ThreadId> threads, const Stop* stop) {
    for (const ThreadId& thread : threads) {
        if (stop == nullptr) {
            copy_sleeping(thread.tid);
            continue;
        }
        StackCopy copy;
        const auto copied = native_.copier().copy_stopped(thread.tid, stop->read_registers(thread.tid), {}, copy);
        if (copied.outcome == CopyOutcome::kCopied) copies_.insert_or_assign(thread.tid, Copied{std::move(copy), ThreadTriage(thread.tid)});
    }
}

bool DumpNative::slept_on(pid_t tid) {
    const auto found = copies_.find(tid);
    return found != copies_.end() && found->second.triage.stayed_blocked(target_);
}

void DumpNative::copy_sleeping(pid_t tid) {
    ThreadTriage triage(tid);
    if (triage.look(target_, {}, {}) != ThreadTriage::State::kBlocked) return;
    StackCopy copy;
    const auto copied = native_.copier().copy_blocked(tid, triage.activity(), {}, copy);
    if (copied.outcome != CopyOutcome::kCopied || !triage.stayed_blocked(target_)) return;
    copies_.insert_or_assign(tid, Copied{std::move(copy), triage});
}

std::optional<StackId> DumpNative::join(const Thread& thread) {
    auto found = copies_.find(thread.tid);
    const bool is_own = thread.entry == kNullAddress || (found != copies_.end() && found->second.copy.holds(thread.entry, 8));
    if (!is_own) {
        // Up to 3.12 a thread state names the thread that made it, which need not be the one that runs it.
        for (found = copies_.begin(); found != copies_.end() && !found->second.copy.holds(thread.entry, 8);) ++found;
    }
    if (found == copies_.end()) return std::nullopt;
    native_.copy() = found->second.copy;
    const auto joined = native_.join(found->first, thread.parts, {thread.above_python, thread.leaf});
    if (!joined.has_native) return std::nullopt;
    return joined.stack;
}

std::vector<DumpFrame> DumpNative::name(StackId stack) {
    const auto named = name_frames(stacks_, stack, addresses_);
    std::vector<DumpFrame> frames;
    for (auto frame = named.rbegin(); frame != named.rend(); ++frame) {
        frames.push_back({frame->kind, frame->name, frame->full_file, frame->line, frame->module});
    }
    return frames;
}

}  // namespace pyprof
