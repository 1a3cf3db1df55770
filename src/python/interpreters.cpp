// SPDX-License-Identifier: Apache-2.0
#include "python/interpreters.h"

#include <pyprof/error.h>

#include <tsl/robin_set.h>

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kMaxInterpreters = 1'024;
constexpr std::size_t kMaxThreads = 100'000;
// struct _gil_runtime_state (pycore_gil.h) is two condition variables, two mutexes and four words: 216
// bytes with glibc, and it ends before this.
constexpr std::uint64_t kGilBytes = 256;

bool can_be_pointer(Address address) {
    return raw(address) >= 4096 && raw(address) < (1ULL << 48) && (raw(address) & 7) == 0;
}

void read_threads_of(Memory& memory, const Layout& layout, Address interpreter, ThreadList& list) {
    auto address = read_pointer(memory, interpreter + at(layout.interpreter.threads_head));
    Address main{};
    if (has(layout.interpreter.threads_main)) {
        main = read_pointer(memory, interpreter + at(layout.interpreter.threads_main)).value_or(kNullAddress);
    }
    const Layout::Thread& thread = layout.thread;
    const Offset last = std::max({thread.next, thread.interp, thread.thread_id, thread.native_thread_id});
    std::vector<std::byte> bytes(at(last) + 8);
    const std::size_t first = list.threads.size();
    tsl::robin_set<std::uint64_t> known;
    while (address && *address != kNullAddress) {
        if (!known.insert(raw(*address)).second || list.threads.size() - first >= kMaxThreads || !can_be_pointer(*address) ||
            !read_bytes(memory, *address, bytes) ||
            Address{load<std::uint64_t>(bytes.data(), at(thread.interp))} != interpreter) {
            ++list.broken_lists;
            break;
        }
        ThreadState state;
        state.address = *address;
        state.interpreter = interpreter;
        state.pthread = load<std::uint64_t>(bytes.data(), at(thread.thread_id));
        if (has(thread.native_thread_id)) {
            state.native_thread_id = load<std::uint64_t>(bytes.data(), at(thread.native_thread_id));
        }
        state.is_main = main == *address;
        list.threads.push_back(state);
        address = Address{load<std::uint64_t>(bytes.data(), at(thread.next))};
    }
    if (!address) ++list.broken_lists;
    // The list is newest first: without a field that names it, the main thread is the last one.
    if (main == kNullAddress && list.threads.size() > first) list.threads.back().is_main = true;
}

}  // namespace

ThreadList read_thread_list(Memory& memory, const Layout& layout, Address runtime) {
    ThreadList list;
    auto address = read_pointer(memory, runtime + at(layout.runtime.interpreters_head));
    while (address && *address != kNullAddress) {
        const bool is_known = std::any_of(list.interpreters.begin(), list.interpreters.end(),
                                          [&](const InterpreterState& state) { return state.address == *address; });
        if (is_known || list.interpreters.size() >= kMaxInterpreters || !can_be_pointer(*address)) {
            ++list.broken_lists;
            return list;
        }
        const auto next = read_pointer(memory, *address + at(layout.interpreter.next));
        if (!next) {
            ++list.broken_lists;
            break;
        }
        const auto id = has(layout.interpreter.id)
                            ? read_value<std::int64_t>(memory, *address + at(layout.interpreter.id))
                            : std::optional<std::int64_t>(0);
        list.interpreters.push_back({*address, id.value_or(0), runtime});
        read_threads_of(memory, layout, *address, list);
        address = next;
    }
    if (!address) ++list.broken_lists;
    return list;
}

GilFacts read_gil_facts(Memory& memory, const Layout& layout, Address runtime, Address interpreter) {
    GilFacts facts;
    const auto read_int = [&](Address base, Offset offset) -> std::int32_t {
        if (!has(offset)) return 0;
        return read_value<std::int32_t>(memory, base + at(offset)).value_or(0);
    };
    facts.is_collecting = has(layout.runtime.gc_collecting)
                              ? read_int(runtime, layout.runtime.gc_collecting) != 0
                              : read_int(interpreter, layout.interpreter.gc_collecting) != 0;
    if (layout.gil_kind == GilKind::kRuntimeCurrent) {
        facts.gil_begin = runtime + at(layout.runtime.gil_last_holder) - 8;  // `interval` stands before
        facts.gil_end = facts.gil_begin + kGilBytes;
        facts.holder = read_pointer(memory, runtime + at(layout.runtime.tstate_current)).value_or(kNullAddress);
        return facts;
    }
    if (!has(layout.interpreter.gil)) return facts;
    const auto gil = read_pointer(memory, interpreter + at(layout.interpreter.gil));
    if (!gil || !can_be_pointer(*gil)) return facts;
    facts.gil_begin = *gil;
    facts.gil_end = *gil + kGilBytes;
    if (layout.free_threaded && has(layout.gil.enabled)) facts.has_gil = read_int(*gil, layout.gil.enabled) != 0;
    if (facts.has_gil && has(layout.gil.locked) && read_int(*gil, layout.gil.locked) == 1) {
        facts.holder = read_pointer(memory, *gil + at(layout.gil.last_holder)).value_or(kNullAddress);
    }
    return facts;
}

bool thread_holds_gil(const Layout& layout, const GilFacts& facts, Address thread, const std::byte* thread_bytes) {
    if (!facts.has_gil) return false;
    switch (layout.gil_kind) {
        case GilKind::kRuntimeCurrent:
        case GilKind::kLockedHolder:
            return facts.holder == thread;
        case GilKind::kStatusBit:
            return (load<std::uint32_t>(thread_bytes, at(layout.thread.status)) & layout.thread.holds_gil_bit) != 0;
        case GilKind::kThreadInt:
            return load<std::int32_t>(thread_bytes, at(layout.thread.holds_gil)) != 0;
        case GilKind::kNone:
            return false;
    }
    return false;
}

}  // namespace pyprof
