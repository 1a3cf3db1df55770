// SPDX-License-Identifier: Apache-2.0
#include "sample/loops_on_c_stacks.h"

#include <algorithm>

namespace pyprof {

void LoopsOnCStacks::copy(Target& target, std::span<const ThreadId> threads, std::span<const Mapping> mappings,
                          const Stop* stop) {
    for (const ThreadId& thread : threads) {
        if (stop != nullptr) {
            if (const auto registers = stop->read_registers(thread.tid)) add(target.memory(), thread.tid, *registers, mappings);
            continue;
        }
        ThreadTriage triage(thread.tid);
        if (triage.look(target, {}, {}) != ThreadTriage::State::kBlocked) continue;
        RegisterSet registers;
        registers.set(RegisterSet::kRsp, raw(triage.activity().stack_pointer));
        const std::size_t before = stacks_.size();
        add(target.memory(), thread.tid, registers, mappings);
        if (!triage.stayed_blocked(target)) stacks_.resize(before);
    }
}

void LoopsOnCStacks::add(Memory& memory, pid_t tid, const RegisterSet& registers, std::span<const Mapping> mappings) {
    const Address pointer = registers.stack_pointer();
    const auto mapping = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& candidate) {
        return is_within(pointer, candidate.start, candidate.end);
    });
    if (mapping == mappings.end()) return;
    const std::uint64_t size = distance(pointer, mapping->end);
    if (size > kMostBytes - bytes_) return;
    StackCopy stack{registers, pointer, std::vector<std::byte>(size)};
    if (!read_bytes(memory, pointer, stack.bytes)) return;
    bytes_ += size;
    stacks_.emplace_back(tid, std::move(stack));
}

// From the top of the stack down, and from the root of the chain to its leaf, which may stand in a register alone.
Address find_loop(const StackCopy& stack, std::span<const RawFrame> frames) {
    constexpr std::uint64_t kWord = sizeof(std::uint64_t);
    const Address pointer = stack.registers.stack_pointer();
    std::size_t left = frames.size();
    for (Address at{raw(stack.end()) & ~(kWord - 1)}; left > 0 && raw(at) >= raw(pointer) + kWord;) {
        at = at - kWord;
        const auto word = stack.word_at(at);
        if (!word || *word != raw(frames[left - 1].address)) continue;
        if (--left == 0) return at;
    }
    if (left != 1) return kNullAddress;
    for (unsigned number = 0; number < RegisterSet::kReturnAddress; ++number) {
        if (stack.registers.knows(number) && stack.registers.value(number) == raw(frames.front().address)) return pointer;
    }
    return kNullAddress;
}

Address LoopsOnCStacks::find(std::span<const RawFrame> frames, pid_t own) const {
    Address found{};
    std::size_t count = 0;
    for (const auto& [tid, stack] : stacks_) {
        const Address here = find_loop(stack, frames);
        if (here == kNullAddress) continue;
        if (own != 0 && tid == own) return here;
        found = here;
        ++count;
    }
    return count == 1 ? found : kNullAddress;
}

}  // namespace pyprof
