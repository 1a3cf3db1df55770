// SPDX-License-Identifier: Apache-2.0
//
// The layouts of release builds of 3.8 to 3.12, one row a minor version: CPython keeps them within a
// minor. The numbers are those of CPython's own headers (tests/layouts/print_offsets prints them and a
// test compares them); a row differs from its predecessor only where the version does. The sizes of
// interpreters and threads do vary by some words between patch releases: those of 3.8.18, 3.9.18,
// 3.10.13, 3.11.7 and 3.12.1 stand here.
#include "python/layouts.h"

namespace pyprof {

namespace {

constexpr Layout::Chunk kNoChunk{.previous = kAbsent, .size = kAbsent, .top = kAbsent, .data = kAbsent};

// 3.8: pycore_pystate.h, cpython/pystate.h, frameobject.h, code.h.
constexpr Layout row_3_8() {
    Layout row;
    row.version = {.major = 3, .minor = 8};
    row.frame_root = FrameRoot::kThreadFrame;
    row.instruction_kind = InstructionKind::kByteIndex;
    row.line_table_kind = LineTableKind::kLnotab;
    row.gil_kind = GilKind::kRuntimeCurrent;
    row.runtime = {.interpreters_head = 32,
                   .main_thread = 72,
                   .gil_last_holder = 1160,
                   .gil_locked = 1168,
                   .gil_switch_number = 1176,
                   .tstate_current = 1368,
                   .gc_collecting = 544};
    row.interpreter = {.size = 2720, .next = 0, .id = 16, .threads_head = 8, .imports_modules = 56};
    row.thread = {.size = 264,
                  .prev = 0,
                  .next = 8,
                  .interp = 16,
                  .frame = 24,
                  .thread_id = 176,
                  .id = 256,
                  .dict = 152};
    row.chunk = kNoChunk;
    row.frame = {
        .size = 360, .back = 24, .code = 32, .instruction = 104, .executing = 116, .localsplus = 360};
    row.code = {.size = 176,
                .filename = 104,
                .name = 112,
                .first_line = 40,
                .line_table = 120,
                .bytecode = 48,
                .flags = 36,
                .argument_count = 16,
                .local_names = 72};
    row.function = {.code = 16, .qualname = 104};
    row.generator = {.frame = 16, .name = 48, .qualname = 56};
    row.object = {.header_size = 16, .type = 8};
    row.type = {
        .name = 24, .basic_size = 32, .dict_offset = 288, .flags = 168, .base = 256, .cached_keys = 872};
    row.unicode = {.length = 16, .state = 32, .ascii_data = 48, .compact_data = 72};
    row.bytes = {.size = 16, .data = 32};
    row.tuple = {.size = 16, .items = 24};
    row.dict = {.keys = 32, .values = 40, .values_data = 0, .keys_kind = DictKeysKind::kEntriesOnly};
    row.module = {.dict = 16};
    row.integer = {.tag = 16, .digits = 24};
    return row;
}

// 3.9: the collector moves into the interpreter (pycore_interp.h), the GIL stays in the runtime.
constexpr Layout row_3_9() {
    Layout row = row_3_8();
    row.version.minor = 9;
    row.runtime.gil_last_holder = 360;
    row.runtime.gil_locked = 368;
    row.runtime.gil_switch_number = 376;
    row.runtime.tstate_current = 568;
    row.runtime.gc_collecting = kAbsent;
    row.interpreter.size = 5656;
    row.interpreter.id = 24;
    row.interpreter.gc_collecting = 816;
    row.interpreter.imports_modules = 856;
    row.type.cached_keys = 864;
    return row;
}

// 3.10: f_lasti counts code units, f_state replaces f_executing, and PEP 626's line table comes.
constexpr Layout row_3_10() {
    Layout row = row_3_9();
    row.version.minor = 10;
    row.instruction_kind = InstructionKind::kCodeUnitIndex;
    row.line_table_kind = LineTableKind::kLinetable;
    row.interpreter.size = 113528;
    row.thread.size = 280;
    row.thread.cframe = 48;
    row.frame.size = 352;
    row.frame.instruction = 96;
    row.frame.executing = 108;
    row.frame.localsplus = 352;
    row.function.code = 48;
    row.function.qualname = 40;
    row.generator.name = 40;
    row.generator.qualname = 48;
    row.type.cached_keys = 872;
    return row;
}

// 3.11: frames move to the data stack (pycore_frame.h), bytecode into the code object.
constexpr Layout row_3_11() {
    Layout row = row_3_10();
    row.version.minor = 11;
    row.frame_root = FrameRoot::kThreadCframe;
    row.instruction_kind = InstructionKind::kPreviousInstruction;
    row.line_table_kind = LineTableKind::kLocations;
    row.runtime = {.interpreters_head = 40,
                   .main_thread = 80,
                   .gil_last_holder = 368,
                   .gil_locked = 376,
                   .gil_switch_number = 384,
                   .tstate_current = 576};
    row.interpreter = {.size = 107752,
                       .next = 0,
                       .id = 48,
                       .threads_head = 16,
                       .gc_collecting = 848,
                       .imports_modules = 888};
    row.thread = {.size = 360,
                  .prev = 0,
                  .next = 8,
                  .interp = 16,
                  .cframe = 56,
                  .thread_id = 152,
                  .native_thread_id = 160,
                  .id = 240,
                  .dict = 128,
                  .datastack_chunk = 296,
                  .datastack_top = 304,
                  .datastack_limit = 312};
    row.cframe = {.current_frame = 8, .previous = 16};
    row.chunk = {};
    row.frame = {.size = 72,
                 .back = 48,
                 .code = 32,
                 .function = 0,
                 .instruction = 56,
                 .stacktop = 64,
                 .owner = 69,
                 .is_entry = 68,
                 .localsplus = 72,
                 .owner_generator = 1,
                 .owner_last = 2};
    row.code = {.size = 192,
                .unit_count = 16,
                .filename = 112,
                .name = 120,
                .qualname = 128,
                .first_line = 72,
                .line_table = 136,
                .bytecode = 184,
                .flags = 48,
                .nlocalsplus = 76,
                .argument_count = 56,
                .first_traceable = 168,
                .local_names = 96,
                .local_kinds = 104};
    row.function.version = 128;
    row.generator = {.frame = 80, .frame_state = 75, .name = 32, .qualname = 40};
    row.dict.keys_kind = DictKeysKind::kTypedEntries;
    row.managed_dict_back = 24;
    row.instance_values = InstanceValues::kPointerBefore;
    return row;
}

// 3.12: a GIL per interpreter, a shim frame on the C stack at each entry, shorter strings.
constexpr Layout row_3_12() {
    Layout row = row_3_11();
    row.version.minor = 12;
    row.gil_kind = GilKind::kLockedHolder;
    row.runtime = {.interpreters_head = 40, .main_thread = 64};
    row.interpreter = {.size = 383552,
                       .next = 0,
                       .id = 8,
                       .threads_head = 72,
                       .gil = 384,
                       .gc_collecting = 312,
                       .imports_modules = 944,
                       .own_gil = 1040,
                       .trampoline_code = 381736};
    row.gil = {.last_holder = 8, .locked = 16, .switch_number = 24};
    row.thread = {.size = 288,
                  .prev = 0,
                  .next = 8,
                  .interp = 16,
                  .cframe = 56,
                  .status = 24,
                  .thread_id = 136,
                  .native_thread_id = 144,
                  .id = 224,
                  .dict = 112,
                  .datastack_chunk = 232,
                  .datastack_top = 240,
                  .datastack_limit = 248};
    row.cframe = {.current_frame = 0, .previous = 8};
    row.frame = {.size = 72,
                 .back = 8,
                 .code = 0,
                 .function = 16,
                 .instruction = 56,
                 .stacktop = 64,
                 .owner = 70,
                 .localsplus = 72,
                 .owner_generator = 1,
                 .owner_cstack = 3,
                 .owner_last = 3};
    row.code.size = 200;
    row.code.first_line = 68;
    row.code.bytecode = 192;
    row.code.version = 92;
    row.code.frame_size = 76;
    row.code.nlocalsplus = 72;
    row.code.argument_count = 52;
    row.code.first_traceable = 176;
    row.function.version = 136;
    row.generator = {.frame = 72, .frame_state = 67, .name = 24, .qualname = 32};
    row.type.cached_keys = 880;
    row.unicode.ascii_data = 40;
    row.unicode.compact_data = 56;
    row.integer.tagged = true;
    row.instance_values = InstanceValues::kTaggedPointer;
    return row;
}

constexpr Layout kRows[] = {row_3_8(), row_3_9(), row_3_10(), row_3_11(), row_3_12()};

}  // namespace

const Layout* layout_of(int major, int minor) {
    for (const Layout& row : kRows) {
        if (row.version.major == major && row.version.minor == minor) return &row;
    }
    return nullptr;
}

}  // namespace pyprof
