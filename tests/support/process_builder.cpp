// SPDX-License-Identifier: Apache-2.0
//
// What the interpreter loop writes into frames and thread states, field by field.
#include "support/process_builder.h"

#include <algorithm>

namespace pyprof::test {

namespace {

constexpr std::size_t kRuntimeBytes = 4096;
constexpr std::size_t kCframeBytes = 32;

}  // namespace

void ProcessBuilder::put_frame(Address at, const FrameSpec& spec) {
    const Layout::Frame& frame = layout().frame;
    put_field(at, frame.back, raw(spec.back));
    put_field(at, frame.code, raw(spec.code) | spec.tag);
    put_field(at, frame.function, raw(spec.function));
    put_field(at, frame.stacktop, static_cast<std::uint64_t>(spec.stack), 4);
    put_field(at, frame.stackpointer, static_cast<std::uint64_t>(spec.stack));
    put_field(at, frame.owner, static_cast<std::uint64_t>(spec.owner), 1);
    put_field(at, frame.is_entry, spec.is_entry ? 1 : 0, 1);
    // f_state of 3.10, where 0 is executing; before that it is a flag.
    const bool is_state = layout().instruction_kind == InstructionKind::kCodeUnitIndex;
    put_field(at, frame.executing, spec.is_executing != is_state ? 1 : 0, 1);
    const bool is_index = layout().instruction_kind == InstructionKind::kByteIndex || is_state;
    if (is_index) {
        put_field(at, frame.instruction, static_cast<std::uint64_t>(spec.index), 4);
    } else {
        const auto offset = static_cast<std::uint64_t>(static_cast<std::int64_t>(spec.index) * 2);
        const Address start = spec.code + static_cast<std::uint64_t>(layout().code.bytecode);
        put_field(at, frame.instruction, spec.code == kNullAddress ? 0 : raw(start + offset));
    }
}

Address ProcessBuilder::heap_frame(const FrameSpec& spec) {
    const Address at = object(layout().frame.size + 64);
    put_frame(at, spec);
    return at;
}

Address ProcessBuilder::shim(Address back) {
    const Layout::Frame& frame = layout().frame;
    FrameSpec spec;
    spec.code = none();
    spec.back = back;
    spec.owner = has(frame.owner_interpreter) ? frame.owner_interpreter : frame.owner_cstack;
    spec.tag = has(frame.owner_interpreter) ? 1 : 0;
    return heap_frame(spec);
}

ProcessBuilder::Generator ProcessBuilder::generator(FrameSpec spec) {
    const Layout::Generator& layout_of_it = layout().generator;
    Generator result;
    result.object = object(static_cast<std::size_t>(layout_of_it.frame) + layout().frame.size + 64);
    if (!has(layout_of_it.frame_state)) {  // up to 3.10 the frame is an object of its own
        result.frame = heap_frame(spec);
        put_field(result.object, layout_of_it.frame, raw(result.frame));
        return result;
    }
    spec.owner = layout().frame.owner_generator;
    result.frame = result.object + static_cast<std::uint64_t>(layout_of_it.frame);
    put_frame(result.frame, spec);
    return result;
}

ProcessBuilder::DataStack ProcessBuilder::data_stack(std::size_t bytes, Address previous) {
    DataStack stack;
    stack.chunk = allocate(bytes);
    stack.top = stack.chunk + static_cast<std::uint64_t>(std::max(layout().chunk.data, 0));
    stack.limit = stack.chunk + bytes;
    put_field(stack.chunk, layout().chunk.previous, raw(previous));
    put_field(stack.chunk, layout().chunk.size, bytes);
    return stack;
}

Address ProcessBuilder::push_frame(DataStack& stack, const FrameSpec& spec, std::size_t words) {
    const Address at = stack.top;
    put_frame(at, spec);
    stack.top = at + layout().frame.size + words * 8;
    return at;
}

Address ProcessBuilder::any_frame(DataStack& stack, const FrameSpec& spec) {
    return has(layout().thread.datastack_chunk) ? push_frame(stack, spec) : heap_frame(spec);
}

Address ProcessBuilder::thread(const ThreadSpec& spec) {
    const Layout::Thread& thread = layout().thread;
    const Address at = allocate(thread.size + 256);
    put_field(at, thread.interp, raw(spec.interpreter));
    put_field(at, thread.thread_id, spec.thread_id);
    put_field(at, thread.native_thread_id, spec.native_id);
    put_field(at, thread.id, spec.id);
    put_field(at, thread.datastack_chunk, raw(spec.stack.chunk));
    put_field(at, thread.datastack_top, raw(spec.stack.top));
    put_field(at, thread.datastack_limit, raw(spec.stack.limit));
    put_field(at, thread.state, static_cast<std::uint64_t>(spec.state), 4);
    put_field(at, thread.status, spec.holds_gil ? thread.holds_gil_bit : 0, 4);
    put_field(at, thread.holds_gil, spec.holds_gil ? 1 : 0, 4);
    if (has(thread.cframe)) put_field(at, thread.cframe, raw(allocate(kCframeBytes)));
    if (has(thread.base_frame)) put_field(at, thread.base_frame, raw(shim(kNullAddress)));
    set_leaf(at, spec.leaf);
    return at;
}

void ProcessBuilder::set_leaf(Address thread, Address frame) {
    const Layout::Thread& fields = layout().thread;
    put_field(thread, fields.frame, raw(frame));
    put_field(thread, fields.current_frame, raw(frame));
    if (!has(layout().cframe.current_frame)) return;
    const auto cframe = read_pointer(memory(), thread + static_cast<std::uint64_t>(fields.cframe));
    put_field(cframe.value_or(kNullAddress), layout().cframe.current_frame, raw(frame));
}

Address ProcessBuilder::interpreter(std::uint64_t id) {
    const Address at = allocate(layout().interpreter.size);
    const Layout::Interpreter& fields = layout().interpreter;
    put_field(at, fields.id, id);
    if (has(fields.own_gil)) put_field(at, fields.gil, raw(at + static_cast<std::uint64_t>(fields.own_gil)));
    return at;
}

void ProcessBuilder::set_threads(Address interpreter, const std::vector<Address>& threads) {
    const Layout::Interpreter& fields = layout().interpreter;
    put_field(interpreter, fields.threads_head, threads.empty() ? 0 : raw(threads.front()));
    put_field(interpreter, fields.threads_main, threads.empty() ? 0 : raw(threads.back()));
    for (std::size_t i = 0; i < threads.size(); ++i) {
        put_field(threads[i], layout().thread.prev, i == 0 ? 0 : raw(threads[i - 1]));
        put_field(threads[i], layout().thread.next, i + 1 == threads.size() ? 0 : raw(threads[i + 1]));
    }
}

void ProcessBuilder::set_modules(Address interpreter, Address modules) {
    put_field(interpreter, layout().interpreter.imports_modules, raw(modules));
}

void ProcessBuilder::set_gil(Address runtime, Address interpreter, Address holder) {
    const bool is_locked = holder != kNullAddress;
    put_field(runtime, layout().runtime.tstate_current, raw(holder));
    put_field(runtime, layout().runtime.gil_last_holder, raw(holder));
    put_field(runtime, layout().runtime.gil_locked, is_locked ? 1 : 0, 4);
    if (!has(layout().interpreter.own_gil)) return;
    const Address gil = interpreter + static_cast<std::uint64_t>(layout().interpreter.own_gil);
    put_field(gil, layout().gil.enabled, 1, 4);
    put_field(gil, layout().gil.last_holder, raw(holder));
    put_field(gil, layout().gil.locked, is_locked ? 1 : 0, 4);
}

void ProcessBuilder::take_gil(Address runtime, Address interpreter, Address thread) {
    set_gil(runtime, interpreter, thread);
    const bool is_own = has(layout().gil.switch_number);
    const Address gil = is_own ? interpreter + static_cast<std::uint64_t>(layout().interpreter.own_gil) : runtime;
    const Offset number = is_own ? layout().gil.switch_number : layout().runtime.gil_switch_number;
    if (!has(number)) return;
    put_field(gil, number, read_value<std::uint64_t>(memory(), gil + static_cast<std::uint64_t>(number)).value_or(0) + 1);
}

Address ProcessBuilder::runtime(const std::vector<Address>& interpreters, std::span<const std::byte> start) {
    const Address at = allocate(std::max(kRuntimeBytes, start.size()));
    memory().write(at, start);
    put_field(at, layout().runtime.interpreters_head, interpreters.empty() ? 0 : raw(interpreters.front()));
    for (std::size_t i = 0; i < interpreters.size(); ++i) {
        const bool is_last = i + 1 == interpreters.size();
        put_field(interpreters[i], layout().interpreter.next, is_last ? 0 : raw(interpreters[i + 1]));
    }
    return at;
}

}  // namespace pyprof::test
