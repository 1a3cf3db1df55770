// SPDX-License-Identifier: Apache-2.0
#include "native/stack_copier.h"

#include "base/clock.h"

#include <algorithm>

namespace pyprof {
namespace {

constexpr std::uint64_t kPage = 4096;
// Some 0.2 ms of copying while the thread is stopped. Deeper stacks lose their roots.
constexpr std::uint64_t kLongestReach = 1 << 20;
// Behind the end of the outermost frame nothing is looked at.
constexpr std::uint64_t kSlack = 64;

}  // namespace

std::uint64_t StackCopier::read_to_known_end(Stack& stack, std::span<const ReadRange> also, StackCopy& copy,
                                             ReadOutcome& also_outcome) {
    ranges_.assign(also.begin(), also.end());
    const std::uint64_t size = distance(copy.begin, stack.end);
    const bool is_known = raw(stack.end) > raw(copy.begin) && size <= kLongestReach;
    if (is_known) {
        copy.bytes.resize(size);
        ranges_.push_back({copy.begin, copy.bytes});
    }
    const ReadOutcome outcome = memory_.read(ranges_);
    also_outcome = {std::min(outcome.complete, also.size()), ReadFault::kNone};
    if (outcome.complete >= also.size()) return outcome.complete == also.size() + 1 ? size : 0;
    // A bad range of the caller's came first.
    also_outcome.fault = outcome.fault;
    return is_known && memory_.read(std::span(ranges_).subspan(also.size())).complete == 1 ? size : 0;
}

// A mapping says little of where a stack ends: since glibc 2.42 the guard between two stacks lies within one
// mapping (MADV_GUARD_INSTALL), and other memory may follow without a seam. So all is taken up to the first
// page that can't be read, as far as the reach.
std::uint64_t StackCopier::read_page_by_page(Stack& stack, StackCopy& copy) {
    std::uint64_t size = stack.reach;
    if (const Mapping* mapping = map_.mapping_of(copy.begin + kRedZoneBytes); mapping != nullptr) {
        size = std::min(size, distance(copy.begin, mapping->end));
    }
    copy.bytes.resize(size);
    ranges_.clear();
    for (std::uint64_t at = 0; at < size;) {
        const std::uint64_t piece = std::min(kPage - raw(copy.begin + at) % kPage, size - at);
        ranges_.push_back({copy.begin + at, std::span(copy.bytes).subspan(at, piece)});
        at += piece;
    }
    const std::size_t complete = memory_.read(ranges_).complete;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < complete; ++i) bytes += ranges_[i].to.size();
    if (bytes > 0 && bytes < size) stack.end = copy.begin + bytes;
    return bytes;
}

CopyOutcome StackCopier::read(pid_t tid, std::span<const ReadRange> also, StackCopy& copy,
                              ReadOutcome& also_outcome) {
    Stack& stack = stacks_[tid];
    const Address sp = copy.registers.stack_pointer();
    copy.begin = sp - kRedZoneBytes;
    std::uint64_t bytes = read_to_known_end(stack, also, copy, also_outcome);
    if (bytes == 0) bytes = read_page_by_page(stack, copy);
    if (bytes == 0) {  // the red zone may lie in the guard below the stack
        copy.begin = sp;
        bytes = read_page_by_page(stack, copy);
    }
    copy.bytes.resize(bytes);
    return bytes == 0 ? CopyOutcome::kUnreadable : CopyOutcome::kCopied;
}

StackCopier::Copied StackCopier::copy_running(pid_t tid, std::span<const ReadRange> also, StackCopy& copy,
                                              std::chrono::nanoseconds patience,
                                              const WhileStopped& while_stopped) {
    Copied copied;
    if (!stopper_.stop(tid, patience)) return copied;
    const auto start = monotonic_now();
    copied = copy_stopped(tid, stopper_.read_registers(), also, copy);
    if (while_stopped) while_stopped(copied.also);
    // Before the resume: the kernel likes to run the woken thread here, in our place.
    copied.stopped = monotonic_now() - start;
    copied.held = stopper_.held_for();
    stopper_.resume();
    return copied;
}

StackCopier::Copied StackCopier::copy_stopped(pid_t tid, const std::optional<RegisterSet>& registers,
                                              std::span<const ReadRange> also, StackCopy& copy) {
    Copied copied;
    copied.outcome = CopyOutcome::kUnreadable;
    if (!registers) {
        copy.bytes.clear();
        return copied;
    }
    copy.registers = *registers;
    copied.outcome = read(tid, also, copy, copied.also);
    return copied;
}

StackCopier::Copied StackCopier::copy_blocked(pid_t tid, const Activity& activity,
                                              std::span<const ReadRange> also, StackCopy& copy) {
    copy.registers = {};
    copy.registers.set(RegisterSet::kRsp, raw(activity.stack_pointer));
    copy.registers.set(RegisterSet::kReturnAddress, raw(activity.program_counter));
    Copied copied;
    copied.outcome = read(tid, also, copy, copied.also);
    return copied;
}

void StackCopier::learn(pid_t tid, const Unwound& unwound, std::span<const NativeFrame> frames) {
    const auto known = stacks_.find(tid);
    if (known == stacks_.end() || frames.empty()) return;
    Stack& stack = known.value();
    if (unwound.is_complete()) {
        stack.end = frames.back().cfa + kSlack;
    } else if (unwound.end == UnwindEnd::kOutsideCopy && stack.reach < kLongestReach) {
        stack.end = kNullAddress;
        stack.reach = std::min(stack.reach * 2, kLongestReach);
    }
}

}  // namespace pyprof
