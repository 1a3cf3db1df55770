// SPDX-License-Identifier: Apache-2.0
//
// What differs between CPython versions, as data: offsets in bytes from the start of each struct, and a
// few enums. One row a version up to 3.12; from 3.13 on filled from the target's own _Py_DebugOffsets
// and completed by what those leave out. Code above never compares versions: it asks for a field.
#pragma once

#include <cstdint>
#include <string>

namespace pyprof {

// Offset of a field that this version lacks.
constexpr std::int32_t kAbsent = -1;
using Offset = std::int32_t;

constexpr bool has(Offset offset) { return offset >= 0; }
// Of a field that there is: to be added to an address.
constexpr std::uint64_t at(Offset offset) { return static_cast<std::uint64_t>(offset); }

struct PythonVersion {
    int major = 0;
    int minor = 0;
    int micro = 0;
    std::uint32_t hex = 0;  // PY_VERSION_HEX
};
std::string to_string(const PythonVersion& version);  // "3.12.1", "3.15.0rc2"

// How a thread state leads to its leaf frame.
enum class FrameRoot : std::uint8_t {
    kThreadFrame,    // thread.frame: PyFrameObject, up to 3.10
    kThreadCframe,   // thread.cframe -> cframe.current_frame: _PyInterpreterFrame, 3.11 and 3.12
    kThreadCurrent,  // thread.current_frame: _PyInterpreterFrame, from 3.13 on
};

// What the instruction field of a frame holds.
enum class InstructionKind : std::uint8_t {
    kByteIndex,            // f_lasti in bytes, 3.8 and 3.9
    kCodeUnitIndex,        // f_lasti in code units of two bytes, 3.10
    kPreviousInstruction,  // pointer to the unit before the next one, 3.11 and 3.12; start - 1 unit: not begun
    kInstructionPointer,   // pointer to the unit that executes, from 3.13 on
};

enum class LineTableKind : std::uint8_t {
    kLnotab,     // 3.8, 3.9: pairs (bytes, signed lines)
    kLinetable,  // 3.10: pairs (bytes, signed lines), -128: no line
    kLocations,  // 3.11 on: the location table
};

// Where the GIL's holder is told.
enum class GilKind : std::uint8_t {
    kRuntimeCurrent,   // runtime.tstate_current, 3.8 to 3.11
    kLockedHolder,     // interpreter's gil.locked and gil.last_holder, 3.12
    kStatusBit,        // bit in thread.status, 3.13
    kThreadInt,        // thread.holds_gil, from 3.14 on
    kNone,             // free-threaded with the GIL off
};

// The table behind a dict (PyDictKeysObject).
enum class DictKeysKind : std::uint8_t {
    kEntriesOnly,   // 3.8 to 3.10: dk_size as a word, entries of {hash, key, value}
    kTypedEntries,  // from 3.11 on: log2 sizes and dk_kind, entries of {key, value} where all keys are str
};

// Where an instance keeps its attributes while it has no __dict__ of its own.
enum class InstanceValues : std::uint8_t {
    kNone,           // up to 3.10: always in the dict
    kPointerBefore,  // 3.11: a pointer to the values, one word before the managed dict
    kTaggedPointer,  // 3.12: the managed dict's word; bit 0 set: the values, plus one
    kInline,         // from 3.13 on: behind the object, at tp_basicsize
};

struct Layout {
    PythonVersion version;
    bool free_threaded = false;
    bool from_debug_offsets = false;

    std::uint64_t pointer_mask = ~0ULL;  // of f_executable and locals: ~3 where references are tagged (3.14 on)
    FrameRoot frame_root = FrameRoot::kThreadFrame;
    InstructionKind instruction_kind = InstructionKind::kByteIndex;
    LineTableKind line_table_kind = LineTableKind::kLnotab;
    GilKind gil_kind = GilKind::kRuntimeCurrent;

    struct Runtime {
        Offset interpreters_head = kAbsent;
        Offset main_thread = kAbsent;      // pthread of the main thread, up to 3.12
        Offset gil_last_holder = kAbsent;  // up to 3.11
        Offset gil_locked = kAbsent;       // up to 3.11
        Offset gil_switch_number = kAbsent;  // up to 3.11
        Offset tstate_current = kAbsent;   // up to 3.11
        Offset gc_collecting = kAbsent;    // 3.8
    } runtime;

    struct Interpreter {
        std::uint32_t size = 0;  // 0: unknown
        Offset next = kAbsent;
        Offset id = kAbsent;
        Offset threads_head = kAbsent;
        Offset threads_main = kAbsent;
        Offset gil = kAbsent;              // pointer to struct _gil_runtime_state, 3.12 on
        Offset gc_collecting = kAbsent;    // int, 3.9 on
        Offset gc_frame = kAbsent;         // 3.15
        Offset imports_modules = kAbsent;  // dict of sys.modules
        Offset code_object_generation = kAbsent;  // u64, 3.14 on
        Offset own_gil = kAbsent;          // the embedded struct, 3.12 on
        Offset trampoline_code = kAbsent;  // interpreter_trampoline, 3.12
    } interpreter;

    struct Gil {  // struct _gil_runtime_state, from its start, 3.12 on
        Offset enabled = kAbsent;  // free-threaded builds
        Offset last_holder = kAbsent;
        Offset locked = kAbsent;
        Offset switch_number = kAbsent;  // one more whenever a thread takes it that was not the last to hold it
    } gil;

    struct Thread {
        std::uint32_t size = 0;
        Offset prev = kAbsent;
        Offset next = kAbsent;
        Offset interp = kAbsent;
        Offset frame = kAbsent;          // up to 3.10
        Offset cframe = kAbsent;         // 3.10 to 3.12: on the C stack of the thread that runs it
        Offset current_frame = kAbsent;  // 3.13 on
        Offset base_frame = kAbsent;     // 3.15, pointer to the sentinel frame
        Offset status = kAbsent;         // u32 bit field, 3.12 on
        Offset holds_gil = kAbsent;      // int, 3.14 on
        Offset gil_requested = kAbsent;  // int, 3.15
        Offset state = kAbsent;          // int: 0 detached, 1 attached, 2 suspended; 3.13 on
        Offset thread_id = kAbsent;      // pthread_t
        Offset native_thread_id = kAbsent;  // 3.11 on
        Offset id = kAbsent;
        Offset dict = kAbsent;
        Offset datastack_chunk = kAbsent;   // 3.11 on
        Offset datastack_top = kAbsent;     // 3.11 on
        Offset datastack_limit = kAbsent;   // 3.11 on
        std::uint32_t holds_gil_bit = 0;    // mask within status, 3.13
    } thread;

    struct Cframe {  // _PyCFrame, 3.11 and 3.12
        Offset current_frame = kAbsent;
        Offset previous = kAbsent;
    } cframe;

    struct Chunk {  // _PyStackChunk, 3.11 on
        Offset previous = 0;
        Offset size = 8;
        Offset top = 16;
        Offset data = 24;
    } chunk;

    struct Frame {  // PyFrameObject up to 3.10, else _PyInterpreterFrame
        std::uint32_t size = 0;        // of the part before localsplus
        Offset back = kAbsent;         // f_back or previous
        Offset code = kAbsent;         // f_code or f_executable
        Offset function = kAbsent;     // f_func or f_funcobj, 3.11 on
        Offset instruction = kAbsent;  // f_lasti (int), prev_instr or instr_ptr
        Offset stacktop = kAbsent;     // int, 3.11 to 3.13
        Offset stackpointer = kAbsent; // pointer, 3.14 on
        Offset owner = kAbsent;        // char, 3.11 on
        Offset is_entry = kAbsent;     // bool, 3.11
        Offset executing = kAbsent;    // f_executing (char, 3.8 and 3.9) or f_state (int8, 3.10; 0 = executing)
        Offset tlbc_index = kAbsent;   // int32, free-threaded 3.14 on
        Offset localsplus = kAbsent;
        // Values of `owner`; kAbsent where the version has none.
        std::int32_t owner_generator = kAbsent;
        std::int32_t owner_cstack = kAbsent;       // 3.12 and 3.13: the shim on the C stack (3.14: never seen)
        std::int32_t owner_interpreter = kAbsent;  // 3.14 on: the shim
        std::int32_t owner_last = kAbsent;         // highest legal value
    } frame;

    struct Code {
        std::uint32_t size = 0;
        Offset unit_count = kAbsent;  // ob_size: code units, 3.11 on
        Offset filename = kAbsent;
        Offset name = kAbsent;
        Offset qualname = kAbsent;
        Offset first_line = kAbsent;  // int
        Offset line_table = kAbsent;  // bytes
        Offset bytecode = kAbsent;    // co_code (bytes *) up to 3.10, co_code_adaptive (inline) from 3.11 on
        Offset flags = kAbsent;       // int
        Offset version = kAbsent;     // co_version u32, 3.12 on
        Offset frame_size = kAbsent;  // co_framesize int (words), 3.11 on
        Offset nlocalsplus = kAbsent; // int, 3.11 on
        Offset argument_count = kAbsent;    // co_argcount
        // int: code units before RESUME, 3.11 on. A frame that stands before it and is no generator's is
        // being built, or waits below an __init__ (EXIT_INIT_CHECK): the interpreter hides it, too.
        Offset first_traceable = kAbsent;
        Offset local_names = kAbsent;  // co_varnames up to 3.10, co_localsplusnames
        Offset local_kinds = kAbsent;  // 3.11 on
        Offset tlbc = kAbsent;         // _PyCodeArray *, free-threaded 3.14 on
    } code;

    struct Function {
        Offset code = kAbsent;
        Offset qualname = kAbsent;
        Offset version = kAbsent;  // func_version u32
    } function;

    struct Generator {
        Offset frame = kAbsent;        // gi_frame (pointer) up to 3.10, else the embedded gi_iframe
        Offset frame_state = kAbsent;  // 3.11 on
        Offset name = kAbsent;
        Offset qualname = kAbsent;
    } generator;

    struct Object {
        std::uint32_t header_size = 16;  // sizeof(PyObject)
        Offset type = 8;
    } object;

    struct Type {
        Offset name = kAbsent;  // tp_name: char *
        Offset basic_size = kAbsent;
        Offset dict_offset = kAbsent;
        Offset flags = kAbsent;
        Offset base = kAbsent;
        Offset cached_keys = kAbsent;  // ht_cached_keys
    } type;

    struct Unicode {
        Offset length = kAbsent;
        Offset state = kAbsent;
        Offset ascii_data = kAbsent;    // sizeof(PyASCIIObject)
        Offset compact_data = kAbsent;  // sizeof(PyCompactUnicodeObject)
        bool wide_interned = false;     // free-threaded 3.14 on: kind, compact, ascii start at bit 8
    } unicode;

    struct Bytes {
        Offset size = kAbsent;
        Offset data = kAbsent;
    } bytes;

    struct Tuple {
        Offset size = kAbsent;
        Offset items = kAbsent;
    } tuple;

    struct Dict {
        Offset keys = kAbsent;
        Offset values = kAbsent;     // non-null: a split table, whose values stand there
        Offset values_data = 0;      // from that pointer to the first value: 8 from 3.13 on
        DictKeysKind keys_kind = DictKeysKind::kEntriesOnly;
    } dict;

    struct Module {
        Offset dict = kAbsent;  // md_dict
    } module;

    struct Long {  // up to 3.11 ob_size and ob_digit; from 3.12 on lv_tag and ob_digit
        Offset tag = kAbsent;
        Offset digits = kAbsent;
        bool tagged = false;  // sign in bits 0 and 1, count from bit 3 on; else a count whose sign is the value's
    } integer;

    // Bytes from an object back to its managed dict pointer, 3.11 on (16, 24 or 8); kAbsent: none.
    Offset managed_dict_back = kAbsent;
    InstanceValues instance_values = InstanceValues::kNone;
};

}  // namespace pyprof
