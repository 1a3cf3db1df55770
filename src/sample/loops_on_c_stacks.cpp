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
    const Address pointer{raw(registers.stack_pointer()) & ~std::uint64_t{7}};
    const auto mapping = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& candidate) {
        return is_within(pointer, candidate.start, candidate.end);
    });
    if (mapping == mappings.end()) return;
    const std::uint64_t size = distance(pointer, mapping->end);
    if (size > kMostBytes - bytes_) return;
    Stack stack{tid, pointer, {}};
    for (unsigned number = 0; number < RegisterSet::kReturnAddress; ++number) {
        if (registers.knows(number) && number != RegisterSet::kRsp) stack.words.push_back(registers.value(number));
    }
    const std::size_t pushed = stack.words.size();
    stack.begin = Address{raw(pointer) - pushed * sizeof(std::uint64_t)};
    stack.words.resize(pushed + size / sizeof(std::uint64_t));
    if (!read_bytes(memory, pointer, std::as_writable_bytes(std::span(stack.words).subspan(pushed)))) return;
    bytes_ += size;
    stacks_.push_back(std::move(stack));
}

// From the top of the stack down, and from the root of the chain to its leaf.
Address LoopsOnCStacks::find_on(const Stack& stack, std::span<const RawFrame> frames) {
    std::size_t left = frames.size();
    for (std::size_t i = stack.words.size(); i-- > 0 && left > 0;) {
        if (stack.words[i] != raw(frames[left - 1].address)) continue;
        if (--left == 0) return stack.begin + i * sizeof(std::uint64_t);
    }
    return kNullAddress;
}

Address LoopsOnCStacks::find(std::span<const RawFrame> frames, pid_t own) const {
    Address found{};
    std::size_t count = 0;
    for (const Stack& stack : stacks_) {
        const Address here = frames.empty() ? kNullAddress : find_on(stack, frames);
        if (here == kNullAddress) continue;
        if (own != 0 && stack.tid == own) return here;
        found = here;
        ++count;
    }
    return count == 1 ? found : kNullAddress;
}

}  // namespace pyprof
