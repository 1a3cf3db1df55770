// SPDX-License-Identifier: Apache-2.0
//
// The numbers come from the debug information of the releases' _asyncio modules; tests/live compares what
// stands there with what a program says of its own tasks, on every version. Layouts are checked against
// tp_basicsize before anything is read by them (asyncio_state.cpp).
#include "python/asyncio_layouts.h"

#include <pyprof/memory.h>

namespace pyprof {

namespace {

constexpr int kFirstRow = 8;

// Offsets that differ between versions up to 3.13; those of free-threaded builds are as much larger as their
// object header.
struct Row {
    Offset state, fut_waiter, coroutine, name;
    std::uint32_t future_size, task_size;
    Offset context_version, origin_depth;  // of the thread state; from 3.13 on by distance
    Offset origin;                         // cr_origin
};
constexpr Row kRows[] = {
    {72, 104, 112, 120, 104, 144, 248, 216, 96},   // 3.8
    {80, 144, 152, 160, 144, 184, 248, 216, 96},   // 3.9
    {88, 152, 160, 168, 152, 192, 248, 216, 88},   // 3.10
    {88, 128, 136, 144, 128, 176, 232, 200, 64},   // 3.11
    {88, 128, 136, 144, 128, 176, 216, 184, 56},   // 3.12
    {96, 112, 120, 128, 104, 144, kAbsent, kAbsent, 56},  // 3.13
};
// Include/cpython/pystate.h from 3.13 on: native_thread_id, ... , coroutine_origin_tracking_depth, ...,
// context_ver.
constexpr Offset kOriginDepthAfterNativeId = 24;
constexpr Offset kContextVersionAfterNativeId = 56;

struct AsyncioDebug {
    std::uint64_t task_size, task_name, awaited_by, is_task, awaited_by_is_set, coroutine, node;
    std::uint64_t interpreter_size, interpreter_head;
    std::uint64_t thread_size, running_loop, running_task, tasks_head;
};
static_assert(sizeof(AsyncioDebug) == kAsyncioDebugBytes);

bool is_word_of(std::uint64_t offset, std::uint64_t size, std::uint64_t bytes = 8) {
    return offset % 8 == 0 && size >= bytes && offset <= size - bytes;
}

bool makes_sense(const AsyncioDebug& debug, std::uint64_t header) {
    constexpr std::uint64_t kMostTask = 4096;
    constexpr std::uint64_t kMostThread = 64U << 10U;
    constexpr std::uint64_t kMostInterpreter = 1U << 20U;
    constexpr std::uint64_t kNode = 16;  // next, prev
    const std::uint64_t task = debug.task_size;
    if (task > kMostTask || debug.thread_size > kMostThread || debug.interpreter_size > kMostInterpreter)
        return false;
    return is_word_of(debug.task_name, task) && is_word_of(debug.awaited_by, task) &&
           is_word_of(debug.coroutine, task) && is_word_of(debug.node, task, kNode) &&
           debug.is_task < task && debug.awaited_by_is_set < task && debug.awaited_by >= header + 32 &&
           debug.coroutine >= debug.awaited_by + 16 && is_word_of(debug.interpreter_head, debug.interpreter_size, kNode) &&
           is_word_of(debug.running_loop, debug.thread_size) && is_word_of(debug.running_task, debug.thread_size) &&
           is_word_of(debug.tasks_head, debug.thread_size, kNode);
}

void fill_from_row(AsyncioLayout& asyncio, const Layout& layout, const Row& row) {
    const Offset more = static_cast<Offset>(layout.object.header_size) - 16;
    asyncio.future.state = row.state + more;
    asyncio.future.size = row.future_size + static_cast<std::uint32_t>(more);
    asyncio.task.size = row.task_size + static_cast<std::uint32_t>(more);
    asyncio.task.fut_waiter = row.fut_waiter + more;
    asyncio.task.coroutine = row.coroutine + more;
    asyncio.task.name = row.name + more;
    asyncio.task.context = asyncio.task.name + 8;
    asyncio.thread.context_version = row.context_version;
    asyncio.thread.origin_depth = row.origin_depth;
    asyncio.coroutine_origin = row.origin + more;
    // _PyThreadStateImpl begins with the PyThreadState, and asyncio_running_loop follows it (3.13).
    if (layout.from_debug_offsets) asyncio.thread.running_loop = static_cast<Offset>(layout.thread.size);
}

bool fill_from_debug(AsyncioLayout& asyncio, const Layout& layout, std::span<const std::byte> bytes) {
    if (bytes.size() < kAsyncioDebugBytes) return false;
    const auto debug = load<AsyncioDebug>(bytes.data(), 0);
    const auto header = static_cast<Offset>(layout.object.header_size);
    if (!makes_sense(debug, layout.object.header_size)) return false;
    const auto offset = [](std::uint64_t value) { return static_cast<Offset>(value); };
    asyncio.future.awaited_by = offset(debug.awaited_by);
    asyncio.future.awaited_by_is_set = offset(debug.awaited_by_is_set);
    asyncio.future.state = offset(debug.awaited_by) + 8;
    asyncio.task.size = static_cast<std::uint32_t>(debug.task_size);
    asyncio.task.fut_waiter = offset(debug.coroutine) - 8;
    asyncio.task.coroutine = offset(debug.coroutine);
    asyncio.task.name = offset(debug.task_name);
    if (is_word_of(debug.task_name + 8, debug.task_size)) asyncio.task.context = asyncio.task.name + 8;  // so up to 3.15
    asyncio.task.node = offset(debug.node);
    asyncio.thread.size = static_cast<std::uint32_t>(debug.thread_size);
    asyncio.thread.running_loop = offset(debug.running_loop);
    asyncio.thread.running_task = offset(debug.running_task);
    asyncio.thread.tasks_head = offset(debug.tasks_head);
    asyncio.interpreter_tasks_head = offset(debug.interpreter_head);
    asyncio.coroutine_origin = header + 40;
    return true;
}

}  // namespace

CoroutineLayout coroutine_layout_for(const Layout& layout) {
    CoroutineLayout coroutine;
    const int minor = layout.version.minor;
    if (minor <= 9) {
        coroutine.running = 24;
        coroutine.stack_top = 72;
        coroutine.needs_opcode = true;
        coroutine.yield_from = 72;
        return coroutine;
    }
    if (minor == 10) {
        coroutine.state_kind = CoroutineStateKind::kFrameState;
        coroutine.created = -2;
        coroutine.suspended = coroutine.awaiting = coroutine.awaiting_locked = -1;
        coroutine.awaited_place = AwaitedPlace::kStackDepth;
        coroutine.value_stack = 64;
        coroutine.stack_depth = 80;
        coroutine.needs_opcode = true;
        coroutine.yield_from = 72;
        return coroutine;
    }
    coroutine.state_kind = CoroutineStateKind::kCoroutineState;
    coroutine.awaited_place = minor <= 13 ? AwaitedPlace::kLocalsPlus : AwaitedPlace::kBelowStackPointer;
    if (minor <= 12) {
        coroutine.created = -2;
        coroutine.suspended = coroutine.awaiting = coroutine.awaiting_locked = -1;
        coroutine.needs_opcode = true;
        coroutine.resume[0] = 151;
        coroutine.resume[1] = minor == 11 ? 150 : 240;  // RESUME_QUICK, INSTRUMENTED_RESUME
    } else if (minor <= 14) {
        coroutine.created = -3;
        coroutine.suspended = -2;
        coroutine.awaiting = coroutine.awaiting_locked = -1;
    } else {
        coroutine.created = 0;
        coroutine.suspended = 1;
        coroutine.awaiting = 2;
        coroutine.awaiting_locked = 3;
        coroutine.executing = 4;
        coroutine.awaited_back = 2;
    }
    return coroutine;
}

bool needs_asyncio_debug(const Layout& layout) {
    return layout.version.minor >= kFirstRow + static_cast<int>(std::size(kRows));
}

namespace {

AsyncioLayout common_layout(const Layout& layout) {
    AsyncioLayout asyncio;
    asyncio.coroutine = coroutine_layout_for(layout);
    // func_code .. func_closure: four words up to 3.9; from 3.10 on code, defaults, kwdefaults, closure.
    asyncio.function_closure = layout.function.code + (layout.version.minor <= 9 ? 32 : 24);
    return asyncio;
}

void fill_thread(AsyncioLayout& asyncio, const Layout& layout) {
    if (has(asyncio.thread.origin_depth) || !has(layout.thread.native_thread_id)) return;
    asyncio.thread.origin_depth = layout.thread.native_thread_id + kOriginDepthAfterNativeId;
    asyncio.thread.context_version = layout.thread.native_thread_id + kContextVersionAfterNativeId;
}

}  // namespace

std::optional<AsyncioLayout> asyncio_layout_for(const Layout& layout, std::span<const std::byte> debug) {
    AsyncioLayout asyncio = common_layout(layout);
    const auto header = static_cast<Offset>(layout.object.header_size);
    asyncio.future.loop = header;
    asyncio.future.callback0 = header + 8;
    asyncio.future.callbacks = header + 24;
    asyncio.loop_in_holder = layout.version.minor <= 11;
    if (needs_asyncio_debug(layout)) {
        if (!fill_from_debug(asyncio, layout, debug)) return std::nullopt;
    } else {
        const int row = layout.version.minor - kFirstRow;
        if (row < 0) return std::nullopt;
        fill_from_row(asyncio, layout, kRows[static_cast<std::size_t>(row)]);
    }
    fill_thread(asyncio, layout);
    return asyncio;
}

AsyncioLayout layout_without_accelerator(const Layout& layout) {
    if (!needs_asyncio_debug(layout)) {
        if (const auto asyncio = asyncio_layout_for(layout, {})) return *asyncio;
    }
    AsyncioLayout asyncio = common_layout(layout);
    fill_thread(asyncio, layout);
    return asyncio;
}

}  // namespace pyprof
