// SPDX-License-Identifier: Apache-2.0
//
// One thread whose frames the test pushes, and a ThreadReader that samples it.
#pragma once

#include "fixture.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace pyprof::test {

using Status = ThreadReader::Status;

constexpr std::uint64_t kPthread = 0x7f0000001000;

// One thread, with frames that the test pushes.
struct Reading : Fixture {
    explicit Reading(const Layout& which, std::size_t stack_bytes = 16 * 1024) : Fixture(which), f(code("f")) {
        interpreter = builder.interpreter();
        if (shape.on_data_stack()) stack = builder.data_stack(stack_bytes);
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = interpreter;
        spec.thread_id = kPthread;
        spec.stack = stack;
        thread = builder.thread(spec);
        reader = std::make_unique<ThreadReader>(layout(), shape, thread);
        reader->set_identity(interpreter, kPthread);
    }

    [[nodiscard]] bool has_shims() const { return has(layout().frame.owner_cstack) || has(layout().frame.owner_interpreter); }
    Address entered(ProcessBuilder::FrameSpec spec) {  // the thread's outermost
        if (has_shims()) {
            Address base{};
            if (has(layout().thread.base_frame)) {
                base = *read_pointer(memory, thread + static_cast<std::uint64_t>(layout().thread.base_frame));
            }
            spec.back = builder.shim(base);
        }
        spec.is_entry = true;
        return builder.any_frame(stack, spec);
    }
    Address root() { return entered(plain(kNullAddress)); }
    Address push(Address caller) { return builder.any_frame(stack, plain(caller)); }
    Address push_many(Address caller, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) caller = push(caller);
        return caller;
    }
    Address generator(Address caller) { return builder.generator(plain(caller)).frame; }
    ProcessBuilder::FrameSpec plain(Address caller) const {
        ProcessBuilder::FrameSpec spec;
        spec.code = f;
        spec.back = caller;
        spec.index = 8;
        return spec;
    }
    // A chunk on top of the current one, as push_chunk in Python/pystate.c leaves both.
    void open_chunk(std::size_t bytes = 16 * 1024) {
        const std::uint64_t used = (raw(stack.top) - raw(stack.chunk) - static_cast<std::uint64_t>(layout().chunk.data)) / 8;
        builder.put_field(stack.chunk, layout().chunk.top, used);
        below.push_back(stack);
        stack = builder.data_stack(bytes, stack.chunk);
        builder.put_field(thread, layout().thread.datastack_chunk, raw(stack.chunk));
    }
    void close_chunk() {
        memory.unmap(stack.chunk, distance(stack.chunk, stack.limit));
        stack = below.back();
        below.pop_back();
        builder.put_field(thread, layout().thread.datastack_chunk, raw(stack.chunk));
    }

    using Copies = ThreadReader::Copies;
    Status sample(Address leaf, Copies copies = Copies::kOne) {
        builder.set_leaf(thread, leaf);
        return sample(copies);
    }
    Status sample(Copies copies = Copies::kOne) {
        std::vector<ReadRange> ranges;
        reader->plan(ranges, copies, !c_stack.bytes.empty());
        planned = ranges.size();
        std::vector<std::uint8_t> filled(ranges.size(), 0);
        memory.reset_counts();
        std::size_t done = 0;
        while (done < ranges.size()) {
            const std::size_t complete = memory.read(std::span(ranges).subspan(done)).complete;
            std::fill_n(filled.begin() + static_cast<std::ptrdiff_t>(done), complete, std::uint8_t{1});
            done += complete + 1;
        }
        const Status status = reader->take(memory, filled, c_stack, motion);
        calls = memory.reads();
        return status;
    }
    // As a tick does it: the stack may have grown or shrunk by whole chunks.
    Status sample_ahead(Address leaf, Copies copies = Copies::kAround) {
        builder.set_leaf(thread, leaf);
        std::vector<ReadRange> ranges;
        ThreadReader::Ahead ahead;
        reader->plan(ranges, copies, false, &ahead);
        ahead.planned_levels.resize(ranges.size());
        ranges.insert(ranges.end(), ahead.ranges.begin(), ahead.ranges.end());
        ahead.planned_levels.insert(ahead.planned_levels.end(), ahead.levels.begin(), ahead.levels.end());
        planned = ranges.size();
        std::vector<std::uint8_t> filled;
        memory.reset_counts();
        read_all(memory, ranges, filled, ahead.planned_levels);
        if (before_take) before_take();
        const Status status = reader->take(memory, filled);
        calls = memory.reads();
        return status;
    }
    // From here on samples come with a copy of what stands between these, as of now.
    void copy_c_stack(Address begin, Address end) {
        c_stack_bytes.assign(distance(begin, end), std::byte{0});
        for (std::uint64_t i = 0; i < c_stack_bytes.size(); ++i) {
            (void)read_bytes(memory, begin + i, std::span(c_stack_bytes).subspan(i, 1));  // not all of it is mapped
        }
        c_stack = {begin, c_stack_bytes};
    }
    void check_whole(std::size_t frames) {
        CHECK(reader->walk().end == WalkEnd::kRoot);
        CHECK(reader->walk().frames.size() == frames);
    }

    std::function<void()> before_take;  // what the program does once the plan is read
    ThreadReader::Motion motion = ThreadReader::Motion::kMoves;
    Address f;
    Address interpreter;
    ProcessBuilder::DataStack stack;
    std::vector<ProcessBuilder::DataStack> below;
    Address thread;
    std::unique_ptr<ThreadReader> reader;
    CStackBytes c_stack;
    std::vector<std::byte> c_stack_bytes;
    std::size_t calls = 0;    // of the last sample
    std::size_t planned = 0;  // ranges
};

}  // namespace pyprof::test
