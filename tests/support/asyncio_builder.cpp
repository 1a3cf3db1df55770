// SPDX-License-Identifier: Apache-2.0
#include "support/asyncio_builder.h"

#include "support/frame_holding.h"

#include <algorithm>
#include <array>

namespace pyprof::test {

namespace {

constexpr std::uint64_t up_to_word(std::uint64_t bytes) { return (bytes + 7) & ~std::uint64_t{7}; }

// _Py_AsyncioModuleDebugOffsets of 3.14 and later, with places that no release has.
std::array<std::uint64_t, kAsyncioDebugBytes / 8> made_up_places(const Layout& layout) {
    const std::uint64_t header = layout.object.header_size;
    const std::uint64_t thread = up_to_word(layout.thread.size);
    const std::uint64_t interpreter = up_to_word(layout.interpreter.size);
    return {header + 176, header + 128, header + 80, header + 92, header + 93, header + 120, header + 152,
            interpreter, interpreter - 24,
            thread + 64, thread, thread + 8, thread + 16};
}

AsyncioLayout asyncio_of(const Layout& layout) {
    const auto places = made_up_places(layout);
    return asyncio_layout_for(layout, std::as_bytes(std::span(places))).value();
}

}  // namespace

AsyncioBuilder::AsyncioBuilder(ProcessBuilder& builder) : builder_(builder), asyncio_(asyncio_of(builder.layout())) {
    const auto type = [&](std::string_view name, std::uint64_t size, Address base) {
        ObjectBuilder::TypeSpec spec;
        spec.basic_size = size;
        spec.base = base;
        return builder.type(name, spec);
    };
    // From 3.14 on nobody says how large a future is.
    future_type_ = type("_asyncio.Future", asyncio_.future.size != 0 ? asyncio_.future.size : asyncio_.task.size, kNullAddress);
    task_type_ = type("_asyncio.Task", asyncio_.task.size, future_type_);
    coroutine_type_ = type("coroutine", 0, kNullAddress);
    iter_type_ = type("_asyncio.FutureIter", 0, kNullAddress);
    weakref_type_ = type("weakref", 0, kNullAddress);
    set_type_ = type("set", 0, kNullAddress);
    tuple_type_ = type("tuple", 0, kNullAddress);
    function_type_ = type("function", 0, kNullAddress);
    cell_type_ = type("cell", 0, kNullAddress);
    // 3.8 and 3.9 have an object of its own for it, later versions a builtin method.
    const bool has_wrapper = builder.layout().version.minor <= 9;
    wakeup_type_ = type(has_wrapper ? "TaskWakeupMethWrapper" : "builtin_function_or_method", 0, kNullAddress);
    wakeup_definition_ = builder.allocate(32);
    constexpr std::string_view kName("task_wakeup\0", 12);
    const Address text = builder.allocate(kName.size());
    builder.memory().write(text, std::as_bytes(std::span(kName)));
    builder.put_field(wakeup_definition_, 0, raw(text));
}

Address AsyncioBuilder::coroutine(const std::string& name, Address awaits, const std::u32string& file) {
    const Layout& layout = builder_.layout();
    const CoroutineLayout& state = asyncio_.coroutine;
    ObjectBuilder::CodeSpec code;
    code.name = std::u32string(name.begin(), name.end());
    code.filename = file;
    code.bytecode[2] = std::byte{state.yield_from != 0 ? state.yield_from : state.resume[0]};
    code.bytecode[3] = std::byte{2};
    ProcessBuilder::FrameSpec frame;
    frame.code = builder_.code(code);
    frame.is_executing = false;
    frame.stack = 1;
    constexpr std::uint64_t kIsCoroutine = 0x80;  // CO_COROUTINE
    builder_.put_field(frame.code, layout.code.flags, kIsCoroutine, 4);
    const Address made = builder_.generator(frame).object;
    builder_.put_field(made, layout.object.type, raw(coroutine_type_));
    builder_.put_field(made, layout.generator.qualname, raw(builder_.str(name)));
    set_awaiting(made, awaits);
    return made;
}

RawFrame AsyncioBuilder::frame_of(Address coroutine) {
    const Layout& layout = builder_.layout();
    RawFrame frame;
    frame.address = coroutine + at(layout.generator.frame);
    if (!has(layout.generator.frame_state)) frame.address = read_pointer(builder_.memory(), frame.address).value();
    const auto code = read_pointer(builder_.memory(), frame.address + at(layout.frame.code)).value();
    frame.code = Address{raw(code) & layout.pointer_mask};
    const bool is_index = layout.instruction_kind == InstructionKind::kByteIndex || layout.instruction_kind == InstructionKind::kCodeUnitIndex;
    if (!is_index) frame.instruction = raw(frame.code + at(layout.code.bytecode));
    return frame;
}

void AsyncioBuilder::set_awaiting(Address coroutine, Address awaits, std::uint64_t locals) {
    const Layout& layout = builder_.layout();
    const CoroutineLayout& state = asyncio_.coroutine;
    const Address frame = frame_of(coroutine).address;
    const Address slot = frame + at(layout.frame.localsplus) + 8 * locals;
    builder_.memory().put(slot, raw(awaits));
    builder_.put_field(coroutine, layout.generator.frame_state, static_cast<std::uint8_t>(state.awaiting), 1);
    builder_.put_field(coroutine, state.running, 0, 1);
    if (state.state_kind == CoroutineStateKind::kFrameState) {
        builder_.put_field(frame, layout.frame.executing, static_cast<std::uint8_t>(state.suspended), 1);
    }
    builder_.put_field(frame, layout.frame.stacktop, locals + 1, 4);
    builder_.put_field(frame, layout.frame.stackpointer, raw(slot) + 8 * std::uint64_t{state.awaited_back});
    builder_.put_field(frame, state.stack_top, raw(slot + 8));
    builder_.put_field(frame, state.value_stack, raw(slot));
    builder_.put_field(frame, state.stack_depth, 1, 4);
}

void AsyncioBuilder::set_executing(Address coroutine) {
    const Layout& layout = builder_.layout();
    const CoroutineLayout& state = asyncio_.coroutine;
    builder_.put_field(coroutine, layout.generator.frame_state, static_cast<std::uint8_t>(state.executing), 1);
    builder_.put_field(coroutine, state.running, 1, 1);
    if (state.state_kind == CoroutineStateKind::kFrameState) {
        builder_.put_field(frame_of(coroutine).address, layout.frame.executing, static_cast<std::uint8_t>(state.executing), 1);
    }
}

// Behind the place of what it awaits, which counts as a variable, too.
void AsyncioBuilder::set_variable(Address coroutine, Address object) {
    const Layout& layout = builder_.layout();
    const RawFrame frame = frame_of(coroutine);
    if (with_variable_.insert(frame.code).second) {
        builder_.put_field(frame.code, layout.code.local_names, raw(builder_.tuple(std::array{builder_.str("awaited"), builder_.str("held")})));
        builder_.put_field(frame.code, layout.code.nlocalsplus, 2, 4);
    }
    builder_.memory().put(frame.address + at(layout.frame.localsplus) + 8, raw(object));
}

Address AsyncioBuilder::future_iter(Address future) {
    const Address iter = builder_.object(32 + builder_.layout().object.header_size, iter_type_);
    builder_.memory().put(iter + builder_.layout().object.header_size, raw(future));
    return iter;
}

Address AsyncioBuilder::future() { return builder_.object(task_size(), future_type_); }

Address AsyncioBuilder::task(const TaskSpec& spec) {
    const Address task = builder_.object(task_size(), task_type_);
    builder_.put_field(task, asyncio_.task.coroutine, raw(spec.coroutine));
    builder_.put_field(task, asyncio_.task.fut_waiter, raw(spec.fut_waiter));
    builder_.put_field(task, asyncio_.task.name, raw(builder_.str(spec.name)));
    return task;
}

void AsyncioBuilder::add_wakeup(Address future, Address awaiter) {
    const std::uint32_t header = builder_.layout().object.header_size;
    const Address callback = builder_.object(header + 16, wakeup_type_);
    const bool has_wrapper = builder_.layout().version.minor <= 9;
    builder_.memory().put(callback + header, has_wrapper ? raw(awaiter) : raw(wakeup_definition_));
    builder_.memory().put(callback + header + 8, raw(awaiter));
    add_callback(future, callback);
}

void AsyncioBuilder::add_gather(Address future, Address outer) {
    add_callback(future, closure_of(U"_done_callback", U"/lib/asyncio/tasks.py", outer));
}

Address AsyncioBuilder::chain_to(Address destination) {
    return closure_of(U"_call_set_state", U"/lib/asyncio/futures.py", destination);
}

Address AsyncioBuilder::closure_of(const std::u32string& name, const std::u32string& file, Address held) {
    const std::uint32_t header = builder_.layout().object.header_size;
    ObjectBuilder::CodeSpec code;
    code.name = name;
    code.filename = file;
    const Address callback = builder_.function(builder_.code(code));
    const Address cell = builder_.object(header + 8, cell_type_);
    builder_.memory().put(cell + header, raw(held));
    const Address closure = builder_.tuple(std::array{cell});
    builder_.put_field(closure, builder_.layout().object.type, raw(tuple_type_));
    builder_.put_field(callback, builder_.layout().object.type, raw(function_type_));
    builder_.put_field(callback, asyncio_.function_closure, raw(closure));
    return callback;
}

// Behind those that it has.
void AsyncioBuilder::add_callback(Address future, Address callback) {
    const std::uint32_t header = builder_.layout().object.header_size;
    const auto first = read_pointer(builder_.memory(), future + at(asyncio_.future.callback0));
    if (first == kNullAddress) {
        builder_.put_field(future, asyncio_.future.callback0, raw(callback));
        return;
    }
    const auto read = [&](Address from) { return read_value<std::uint64_t>(builder_.memory(), from).value_or(0); };
    const Address list{read(future + at(asyncio_.future.callbacks))};
    std::vector<Address> pairs;
    for (std::uint64_t i = 0; list != kNullAddress && i < read(list + header); ++i) {
        pairs.push_back(Address{read(Address{read(list + header + 8)} + i * 8)});
    }
    pairs.push_back(builder_.tuple(std::array{callback, builder_.none()}));
    builder_.put_field(pairs.back(), builder_.layout().object.type, raw(tuple_type_));
    builder_.put_field(future, asyncio_.future.callbacks, raw(list_of(builder_, pairs)));
}

void AsyncioBuilder::clear_callbacks(Address future) {
    builder_.put_field(future, asyncio_.future.callback0, 0);
    builder_.put_field(future, asyncio_.future.callbacks, 0);
}

Address AsyncioBuilder::set_of(const std::vector<Address>& members) {
    const std::uint32_t header = builder_.layout().object.header_size;
    const Address set = builder_.object(header + 64, set_type_);
    std::size_t slots = 16;
    while (slots < members.size() + 2) slots *= 2;
    const Address table = builder_.allocate(slots * 16);
    const std::array<std::uint64_t, 4> fields{members.size() + 1, members.size(), slots - 1, raw(table)};
    builder_.memory().put(set + header, fields);
    // A member that was taken out leaves a key with the hash -1.
    builder_.memory().put(table, std::array<std::uint64_t, 2>{raw(builder_.none()), ~0ULL});
    for (std::size_t i = 0; i < members.size(); ++i) {
        builder_.memory().put(table + (2 + i) * 16, std::array<std::uint64_t, 2>{raw(members[i]), i});
    }
    return set;
}

void AsyncioBuilder::publish(Address interpreter, const std::vector<Address>& tasks, const std::vector<std::string>& others) {
    const std::uint32_t header = builder_.layout().object.header_size;
    std::vector<Address> references;
    for (const Address task : tasks) {
        const Address reference = builder_.object(header + 16, weakref_type_);
        builder_.memory().put(reference + header, raw(task));
        references.push_back(reference);
    }
    const Address weak_set = builder_.instance("WeakSet", {{"data", set_of(references)}});
    const char* name = builder_.layout().version.minor <= 11 ? "_all_tasks" : "_scheduled_tasks";
    current_tasks_ = builder_.dict(ObjectBuilder::Entries{}, ObjectBuilder::Table::kGeneral);
    const Address names = builder_.module(
        builder_.dict({{name, weak_set}, {"_current_tasks", current_tasks_}, {"Lock", builder_.none()}}));
    const Address accelerator =
        builder_.module(builder_.dict({{"Future", future_type_}, {"Task", task_type_}}));
    std::vector<std::pair<std::string, Address>> modules{{"sys", builder_.none()}, {"_asyncio", accelerator}, {"asyncio.tasks", names}};
    for (const std::string& other : others) modules.emplace_back(other, accelerator);
    builder_.set_modules(interpreter, builder_.dict(modules));
}

void AsyncioBuilder::link(Address thread, const std::vector<Address>& tasks) {
    std::vector<Address> nodes{thread + at(asyncio_.thread.tasks_head)};
    for (const Address task : tasks) nodes.push_back(task + at(asyncio_.task.node));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const Address next = nodes[(i + 1) % nodes.size()];
        builder_.memory().put(nodes[i], raw(next));
        builder_.memory().put(next + 8, raw(nodes[i]));
    }
}

void AsyncioBuilder::publish_places(FakeTarget& target) {
    if (!needs_asyncio_debug(builder_.layout())) return;
    const auto places = made_up_places(builder_.layout());
    const Address section = builder_.allocate(kAsyncioDebugBytes);
    builder_.memory().put(section, places);
    target.set_section(".AsyncioDebug", section, kAsyncioDebugBytes);
}

void AsyncioBuilder::set_loop(Address thread, Address loop, pid_t pid) {
    if (has(asyncio_.thread.running_loop)) {
        builder_.put_field(thread, asyncio_.thread.running_loop, raw(loop));
        return;
    }
    Address held = loop;
    if (asyncio_.loop_in_holder) {
        const std::uint32_t header = builder_.layout().object.header_size;
        held = builder_.object(header + 16);
        builder_.memory().put(held + header, raw(loop));
        builder_.memory().put(held + header + 8, std::int32_t{pid});
    }
    const Address dict = builder_.dict({{"__asyncio_running_event_loop__", held}});
    builder_.put_field(thread, builder_.layout().thread.dict, raw(dict));
}

void AsyncioBuilder::set_current(Address thread, Address loop, Address task) {
    if (has(asyncio_.thread.running_task)) {
        builder_.put_field(thread, asyncio_.thread.running_task, raw(task));
        return;
    }
    ObjectBuilder::Entries entries;
    if (task != kNullAddress) entries.emplace_back(loop, task);
    const Address fresh = builder_.dict(entries, ObjectBuilder::Table::kGeneral);
    const Offset keys = builder_.layout().dict.keys;
    builder_.put_field(current_tasks_, keys, raw(read_pointer(builder_.memory(), fresh + at(keys)).value()));
}

void AsyncioBuilder::set_count(Address thread, std::uint64_t count) {
    builder_.put_field(thread, asyncio_.thread.context_version, count);
}

}  // namespace pyprof::test
