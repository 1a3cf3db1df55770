// SPDX-License-Identifier: Apache-2.0
#include "native/stack_copier.h"

#include "base/clock.h"

#include <algorithm>

namespace pyprof {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFirstReach = 256 << 10;
// Some 0.2 ms of copying while the thread is stopped. Deeper stacks lose their roots.
constexpr std::uint64_t kLongestReach = 1 << 20;
// Behind the end of the outermost frame nothing is looked at.
constexpr std::uint64_t kSlack = 64;

}  // namespace

// Where the end is not known the stack is read to the end of its mapping, and where that is not known either,
// page by page: the pages before the first bad one are taken.
void StackCopier::plan_stack(pid_t tid, StackCopy& copy) {
    Stack& stack = stacks_[tid];
    if (stack.reach == 0) stack.reach = kFirstReach;
    const Address sp = copy.registers.stack_pointer();
    copy.begin = sp - kRedZoneBytes;
    bool is_certain = true;
    std::uint64_t size = distance(copy.begin, stack.end);
    if (stack.end == kNullAddress || raw(stack.end) <= raw(sp) || size > kLongestReach) {
        const Mapping* mapping = map_.mapping_of(sp);
        is_certain = mapping != nullptr && mapping->readable;
        size = stack.reach;
        if (is_certain) size = std::min(size, distance(copy.begin, mapping->end));
    }
    copy.bytes.resize(size);
    const std::span<std::byte> bytes(copy.bytes);
    if (is_certain) {
        ranges_.push_back({copy.begin, bytes});
        return;
    }
    for (std::uint64_t at = 0; at < size;) {
        const std::uint64_t piece = std::min(kPage - raw(copy.begin + at) % kPage, size - at);
        ranges_.push_back({copy.begin + at, bytes.subspan(at, piece)});
        at += piece;
    }
}

CopyOutcome StackCopier::read(pid_t tid, std::span<const ReadRange> also, StackCopy& copy,
                              ReadOutcome& also_outcome) {
    ranges_.assign(also.begin(), also.end());
    plan_stack(tid, copy);
    ReadOutcome outcome = memory_.read(ranges_);
    also_outcome = {std::min(outcome.complete, also.size()), ReadFault::kNone};
    std::size_t read = outcome.complete;
    if (read < also.size()) {
        also_outcome.fault = outcome.fault;
        read = also.size() + memory_.read(std::span(ranges_).subspan(also.size())).complete;
    }
    std::uint64_t bytes = 0;
    for (std::size_t i = also.size(); i < read; ++i) bytes += ranges_[i].to.size();
    copy.bytes.resize(bytes);
    if (bytes <= kRedZoneBytes) {
        stacks_.erase(tid);
        return CopyOutcome::kUnreadable;
    }
    return CopyOutcome::kCopied;
}

StackCopier::Copied StackCopier::copy_running(pid_t tid, std::span<const ReadRange> also, StackCopy& copy,
                                              std::chrono::nanoseconds patience) {
    Copied copied;
    if (!stopper_.stop(tid, patience)) return copied;
    const auto start = monotonic_now();
    copied.outcome = CopyOutcome::kUnreadable;
    if (const auto registers = stopper_.read_registers()) {
        copy.registers = *registers;
        copied.outcome = read(tid, also, copy, copied.also);
    }
    // Before the resume: the kernel likes to run the woken thread here, in our place.
    copied.stopped = monotonic_now() - start;
    stopper_.resume();
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
    } else if (unwound.end == UnwindEnd::kOutsideCopy) {
        stack.end = kNullAddress;
        stack.reach = std::min(stack.reach * 2, kLongestReach);
    }
}

}  // namespace pyprof
