// SPDX-License-Identifier: Apache-2.0
//
// Where the C accelerator of asyncio (Modules/_asynciomodule.c) keeps what, and where coroutines keep their
// state: what differs between versions beyond Layout. Up to 3.13 a row a version; from 3.14 on from the
// target's own section .AsyncioDebug, which is foreign data and checked. Versions are compared here alone.
#pragma once

#include <pyprof/layout.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace pyprof {

// How a coroutine or generator tells what it does.
enum class CoroutineStateKind : std::uint8_t {
    kRunningFlag,     // 3.8, 3.9: gi_running, and f_lasti for one that has not begun
    kFrameState,      // 3.10: the frame's f_state
    kCoroutineState,  // from 3.11 on: gi_frame_state
};

// Where a suspended coroutine keeps the object that it awaits.
enum class AwaitedPlace : std::uint8_t {
    kBelowStackTop,      // 3.8, 3.9: f_stacktop[-1]
    kStackDepth,         // 3.10: f_valuestack[f_stackdepth - 1]
    kLocalsPlus,         // 3.11 to 3.13: localsplus[stacktop - 1]
    kBelowStackPointer,  // 3.14: stackpointer[-1]; 3.15: stackpointer[-2]
};

struct CoroutineLayout {
    CoroutineStateKind state_kind = CoroutineStateKind::kRunningFlag;
    Offset running = kAbsent;  // gi_running, char, 3.8 and 3.9
    // Values of the state; a suspended one that awaits has a value of its own from 3.13 on.
    std::int32_t created = 0;
    std::int32_t suspended = 0;
    std::int32_t awaiting = 0;
    std::int32_t awaiting_locked = 0;
    std::int32_t executing = 0;

    AwaitedPlace awaited_place = AwaitedPlace::kBelowStackTop;
    Offset stack_top = kAbsent;    // f_stacktop, 3.8 and 3.9
    Offset value_stack = kAbsent;  // f_valuestack, 3.10
    Offset stack_depth = kAbsent;  // f_stackdepth, 3.10
    std::uint32_t awaited_back = 1;  // entries below the stack pointer, 3.14 on

    // Up to 3.12 the next instruction tells whether a suspended one awaits: YIELD_FROM, or RESUME with an
    // argument of 2 or 3 in its low bits (another one: it stands at a plain yield).
    bool needs_opcode = false;
    std::uint8_t yield_from = 0;
    std::uint8_t resume[3] = {};  // RESUME and its specialised forms; 0: none
};

struct AsyncioLayout {
    CoroutineLayout coroutine;

    struct Future {  // FutureObj, with which TaskObj begins
        std::uint32_t size = 0;  // tp_basicsize; 0: not checked
        Offset loop = kAbsent;
        Offset callback0 = kAbsent;
        Offset callbacks = kAbsent;   // list of (callback, context)
        Offset state = kAbsent;       // int: 0 pending, 1 cancelled, 2 finished
        Offset awaited_by = kAbsent;  // 3.14 on: a future, or a set of them
        Offset awaited_by_is_set = kAbsent;
    } future;

    struct Task {
        std::uint32_t size = 0;  // tp_basicsize
        Offset fut_waiter = kAbsent;
        Offset coroutine = kAbsent;
        Offset name = kAbsent;  // str; from 3.12 on an int N that stands for "Task-N"
        Offset context = kAbsent;  // a copy of the context in which it was made
        Offset node = kAbsent;  // llist, 3.14 on
    } task;

    struct Thread {
        std::uint32_t size = 0;          // of _PyThreadStateImpl, 3.14 on
        Offset running_loop = kAbsent;   // 3.13 on; before: in tstate.dict
        Offset running_task = kAbsent;   // 3.14 on
        Offset tasks_head = kAbsent;     // llist, 3.14 on
        Offset context_version = kAbsent;  // u64; every callback of a loop adds two
        Offset origin_depth = kAbsent;     // coroutine_origin_tracking_depth, int
    } thread;
    Offset interpreter_tasks_head = kAbsent;  // llist of tasks whose thread has ended, 3.14 on

    bool loop_in_holder = false;  // up to 3.11 the thread's dict holds {loop, pid} instead of the loop
    Offset function_closure = kAbsent;
    Offset coroutine_origin = kAbsent;  // cr_origin
};

// The section .AsyncioDebug: 13 words.
constexpr std::size_t kAsyncioDebugBytes = 13 * 8;

// `debug` are the bytes of .AsyncioDebug, needed from 3.14 on and ignored before. Nothing where they are
// missing or make no sense.
[[nodiscard]] std::optional<AsyncioLayout> asyncio_layout_for(const Layout& layout,
                                                              std::span<const std::byte> debug);
// What asyncio_layout_for() needs the section for.
[[nodiscard]] bool needs_asyncio_debug(const Layout& layout);

// The same for a process that has no accelerator, be it that its asyncio is all in Python, or that it has tasks of another
// library alone: from 3.14 on what has to do with the accelerator is absent.
[[nodiscard]] AsyncioLayout layout_without_accelerator(const Layout& layout);

// Coroutines can be walked without asyncio, too.
[[nodiscard]] CoroutineLayout coroutine_layout_for(const Layout& layout);

}  // namespace pyprof
