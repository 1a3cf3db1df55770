// SPDX-License-Identifier: Apache-2.0
#include "support/asyncio_builder.h"

#include <array>

namespace pyprof::test {

AsyncioBuilder::AsyncioBuilder(ProcessBuilder& builder)
    : builder_(builder), asyncio_(asyncio_layout_for(builder.layout(), {}).value()) {
    const auto type = [&](std::string_view name, std::uint64_t size, Address base) {
        ObjectBuilder::TypeSpec spec;
        spec.basic_size = size;
        spec.base = base;
        return builder.type(name, spec);
    };
    future_type_ = type("_asyncio.Future", asyncio_.future.size, kNullAddress);
    task_type_ = type("_asyncio.Task", asyncio_.task.size, future_type_);
    coroutine_type_ = type("coroutine", 0, kNullAddress);
    iter_type_ = type("_asyncio.FutureIter", 0, kNullAddress);
    weakref_type_ = type("weakref", 0, kNullAddress);
    set_type_ = type("set", 0, kNullAddress);
    // 3.8 and 3.9 have an object of its own for it, later versions a builtin method.
    const bool has_wrapper = builder.layout().version.minor <= 9;
    wakeup_type_ = type(has_wrapper ? "TaskWakeupMethWrapper" : "builtin_function_or_method", 0, kNullAddress);
    wakeup_definition_ = builder.allocate(32);
    constexpr std::string_view kName("task_wakeup\0", 12);
    const Address text = builder.allocate(kName.size());
    builder.memory().write(text, std::as_bytes(std::span(kName)));
    builder.put_field(wakeup_definition_, 0, raw(text));
}

Address AsyncioBuilder::coroutine(const std::string& name, Address awaits) {
    const Layout& layout = builder_.layout();
    const CoroutineLayout& state = asyncio_.coroutine;
    ObjectBuilder::CodeSpec code;
    code.name = std::u32string(name.begin(), name.end());
    code.bytecode[2] = std::byte{state.yield_from != 0 ? state.yield_from : state.resume[0]};
    code.bytecode[3] = std::byte{2};
    ProcessBuilder::FrameSpec frame;
    frame.code = builder_.code(code);
    frame.is_executing = false;
    frame.stack = 1;
    const auto made = builder_.generator(frame);
    builder_.put_field(made.object, layout.object.type, raw(coroutine_type_));
    builder_.put_field(made.object, layout.generator.qualname, raw(builder_.str(name)));
    const Address slot = made.frame + at(layout.frame.localsplus);
    builder_.memory().put(slot, raw(awaits));
    builder_.put_field(made.object, layout.generator.frame_state, static_cast<std::uint8_t>(state.awaiting), 1);
    if (state.state_kind == CoroutineStateKind::kFrameState) {
        builder_.put_field(made.frame, layout.frame.executing, static_cast<std::uint8_t>(state.suspended), 1);
    }
    builder_.put_field(made.frame, state.stack_top, raw(slot + 8));
    builder_.put_field(made.frame, state.value_stack, raw(slot));
    builder_.put_field(made.frame, state.stack_depth, 1, 4);
    return made.object;
}

Address AsyncioBuilder::future_iter(Address future) {
    const Address iter = builder_.object(32 + builder_.layout().object.header_size, iter_type_);
    builder_.memory().put(iter + builder_.layout().object.header_size, raw(future));
    return iter;
}

Address AsyncioBuilder::future() { return builder_.object(asyncio_.future.size, future_type_); }

Address AsyncioBuilder::task(const TaskSpec& spec) {
    const Address task = builder_.object(asyncio_.task.size, task_type_);
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
    builder_.put_field(future, asyncio_.future.callback0, raw(callback));
}

Address AsyncioBuilder::set_of(const std::vector<Address>& members) {
    const std::uint32_t header = builder_.layout().object.header_size;
    const Address set = builder_.object(header + 64, set_type_);
    const Address table = builder_.allocate(16 * 16);
    const std::array<std::uint64_t, 4> fields{members.size() + 1, members.size(), 15, raw(table)};
    builder_.memory().put(set + header, fields);
    // A member that was taken out leaves a key with the hash -1.
    builder_.memory().put(table, std::array<std::uint64_t, 2>{raw(builder_.none()), ~0ULL});
    for (std::size_t i = 0; i < members.size(); ++i) {
        builder_.memory().put(table + (2 + i) * 16, std::array<std::uint64_t, 2>{raw(members[i]), i});
    }
    return set;
}

void AsyncioBuilder::publish(Address interpreter, const std::vector<Address>& tasks) {
    const std::uint32_t header = builder_.layout().object.header_size;
    std::vector<Address> references;
    for (const Address task : tasks) {
        const Address reference = builder_.object(header + 16, weakref_type_);
        builder_.memory().put(reference + header, raw(task));
        references.push_back(reference);
    }
    const Address weak_set = builder_.instance("WeakSet", {{"data", set_of(references)}});
    const char* name = builder_.layout().version.minor <= 11 ? "_all_tasks" : "_scheduled_tasks";
    const Address names = builder_.module(builder_.dict({{name, weak_set}, {"Lock", builder_.none()}}));
    const Address accelerator =
        builder_.module(builder_.dict({{"Future", future_type_}, {"Task", task_type_}}));
    builder_.set_modules(interpreter, builder_.dict({{"sys", builder_.none()},
                                                     {"_asyncio", accelerator},
                                                     {"asyncio.tasks", names}}));
}

}  // namespace pyprof::test
