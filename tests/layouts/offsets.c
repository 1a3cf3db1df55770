/* SPDX-License-Identifier: Apache-2.0
 *
 * The first oracle of the layouts: compiled against the headers of one CPython, it prints what they say
 * of every field of pyprof's Layout, one "name value" a line, -1 where the version has no such field.
 * It must never include anything of pyprof. See print_offsets.
 */
#include <patchlevel.h>
#if PY_MINOR_VERSION >= 15 && !defined(Py_GIL_DISABLED)
#define _Py_TIER2 1 /* how Debian builds it; only the size of the interpreter state depends on it */
#endif
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>

#define AT_LEAST(minor) (PY_VERSION_HEX >= (0x03000000 | ((minor) << 16)))

#include "internal/pycore_pystate.h"
#if AT_LEAST(9)
#include "internal/pycore_runtime.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_gc.h"
#endif
#if AT_LEAST(11)
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#endif
#if AT_LEAST(13)
#include "internal/pycore_tstate.h"
#endif
#if AT_LEAST(14)
#include "internal/pycore_interpframe_structs.h"
#endif
#if AT_LEAST(11)
#include "internal/pycore_moduleobject.h"
#else
/* Objects/moduleobject.c keeps it private there; the third oracle (member tables) and a live read check it. */
typedef struct { PyObject_HEAD PyObject *md_dict; } PyModuleObject;
#endif

static void say(const char *name, long value) { printf("%s %ld\n", name, value); }

#define FIELD(name, type, member) say(name, (long)offsetof(type, member))
#define ABSENT(name) say(name, -1L)

static void print_runtime(void) {
    FIELD("runtime.interpreters_head", _PyRuntimeState, interpreters.head);
#if AT_LEAST(13)
    ABSENT("runtime.main_thread"); /* a plain thread id from there on, not needed */
#else
    FIELD("runtime.main_thread", _PyRuntimeState, main_thread);
#endif
#if AT_LEAST(12)
    ABSENT("runtime.gil_last_holder");
    ABSENT("runtime.gil_locked");
    ABSENT("runtime.gil_switch_number");
    ABSENT("runtime.tstate_current");
#else
    FIELD("runtime.gil_last_holder", _PyRuntimeState, ceval.gil.last_holder);
    FIELD("runtime.gil_locked", _PyRuntimeState, ceval.gil.locked);
    FIELD("runtime.gil_switch_number", _PyRuntimeState, ceval.gil.switch_number);
    FIELD("runtime.tstate_current", _PyRuntimeState, gilstate.tstate_current);
#endif
#if AT_LEAST(9)
    ABSENT("runtime.gc_collecting");
#else
    FIELD("runtime.gc_collecting", _PyRuntimeState, gc.collecting);
#endif
}

static void print_interpreter(void) {
    say("interpreter.size", (long)sizeof(PyInterpreterState));
    FIELD("interpreter.next", PyInterpreterState, next);
    FIELD("interpreter.id", PyInterpreterState, id);
#if AT_LEAST(11)
    FIELD("interpreter.threads_head", PyInterpreterState, threads.head);
#else
    FIELD("interpreter.threads_head", PyInterpreterState, tstate_head);
#endif
#if AT_LEAST(13)
    FIELD("interpreter.threads_main", PyInterpreterState, threads.main);
#else
    ABSENT("interpreter.threads_main");
#endif
#if AT_LEAST(12)
    FIELD("interpreter.gil", PyInterpreterState, ceval.gil);
    FIELD("interpreter.own_gil", PyInterpreterState, _gil);
    FIELD("interpreter.imports_modules", PyInterpreterState, imports.modules);
#else
    ABSENT("interpreter.gil");
    ABSENT("interpreter.own_gil");
    FIELD("interpreter.imports_modules", PyInterpreterState, modules);
#endif
#if AT_LEAST(9)
    FIELD("interpreter.gc_collecting", PyInterpreterState, gc.collecting);
#else
    ABSENT("interpreter.gc_collecting");
#endif
#if AT_LEAST(15)
    FIELD("interpreter.gc_frame", PyInterpreterState, gc.frame);
#else
    ABSENT("interpreter.gc_frame");
#endif
#if AT_LEAST(14)
    FIELD("interpreter.code_object_generation", PyInterpreterState, _code_object_generation);
#else
    ABSENT("interpreter.code_object_generation");
#endif
#if AT_LEAST(12) && !AT_LEAST(13)
    FIELD("interpreter.trampoline_code", PyInterpreterState, interpreter_trampoline);
#else
    ABSENT("interpreter.trampoline_code");
#endif
}

static void print_gil(void) {
#if AT_LEAST(12)
#ifdef Py_GIL_DISABLED
    FIELD("gil.enabled", struct _gil_runtime_state, enabled);
#else
    ABSENT("gil.enabled");
#endif
    FIELD("gil.last_holder", struct _gil_runtime_state, last_holder);
    FIELD("gil.locked", struct _gil_runtime_state, locked);
    FIELD("gil.switch_number", struct _gil_runtime_state, switch_number);
#else
    ABSENT("gil.enabled");
    ABSENT("gil.last_holder");
    ABSENT("gil.locked");
    ABSENT("gil.switch_number");
#endif
}

#if AT_LEAST(13) && !AT_LEAST(14)
/* The bit within the 32 bits of _status: set alone, then looked at. */
static long holds_gil_bit(void) {
    static PyThreadState thread;
    unsigned int word;
    thread._status.holds_gil = 1;
    memcpy(&word, (char *)&thread + offsetof(PyThreadState, _status), sizeof word);
    return (long)word;
}
#endif

static void print_thread(void) {
    say("thread.size", (long)sizeof(PyThreadState));
    FIELD("thread.prev", PyThreadState, prev);
    FIELD("thread.next", PyThreadState, next);
    FIELD("thread.interp", PyThreadState, interp);
#if AT_LEAST(11)
    ABSENT("thread.frame");
#else
    FIELD("thread.frame", PyThreadState, frame);
#endif
#if AT_LEAST(10) && !AT_LEAST(13)
    FIELD("thread.cframe", PyThreadState, cframe);
#else
    ABSENT("thread.cframe");
#endif
#if AT_LEAST(11) && !AT_LEAST(13)
    FIELD("cframe.current_frame", _PyCFrame, current_frame);
    FIELD("cframe.previous", _PyCFrame, previous);
#else
    ABSENT("cframe.current_frame");
    ABSENT("cframe.previous");
#endif
#if AT_LEAST(13)
    FIELD("thread.current_frame", PyThreadState, current_frame);
    FIELD("thread.state", PyThreadState, state);
#else
    ABSENT("thread.current_frame");
    ABSENT("thread.state");
#endif
#if AT_LEAST(15)
    FIELD("thread.base_frame", PyThreadState, base_frame);
    FIELD("thread.gil_requested", PyThreadState, gil_requested);
#else
    ABSENT("thread.base_frame");
    ABSENT("thread.gil_requested");
#endif
#if AT_LEAST(12)
    FIELD("thread.status", PyThreadState, _status);
#else
    ABSENT("thread.status");
#endif
#if AT_LEAST(14)
    FIELD("thread.holds_gil", PyThreadState, holds_gil);
#else
    ABSENT("thread.holds_gil");
#endif
    FIELD("thread.thread_id", PyThreadState, thread_id);
#if AT_LEAST(11)
    FIELD("thread.native_thread_id", PyThreadState, native_thread_id);
    FIELD("thread.datastack_chunk", PyThreadState, datastack_chunk);
    FIELD("thread.datastack_top", PyThreadState, datastack_top);
    FIELD("thread.datastack_limit", PyThreadState, datastack_limit);
    FIELD("chunk.previous", _PyStackChunk, previous);
    FIELD("chunk.size", _PyStackChunk, size);
    FIELD("chunk.top", _PyStackChunk, top);
    FIELD("chunk.data", _PyStackChunk, data);
#else
    ABSENT("thread.native_thread_id");
    ABSENT("thread.datastack_chunk");
    ABSENT("thread.datastack_top");
    ABSENT("thread.datastack_limit");
    ABSENT("chunk.previous");
    ABSENT("chunk.size");
    ABSENT("chunk.top");
    ABSENT("chunk.data");
#endif
    FIELD("thread.id", PyThreadState, id);
    FIELD("thread.dict", PyThreadState, dict);
#if AT_LEAST(13) && !AT_LEAST(14)
    say("thread.holds_gil_bit", holds_gil_bit());
#else
    say("thread.holds_gil_bit", 0);
#endif
}

#if AT_LEAST(11)
static void print_frame(void) {
    say("frame.size", (long)offsetof(_PyInterpreterFrame, localsplus));
    FIELD("frame.back", _PyInterpreterFrame, previous);
#if AT_LEAST(13)
    FIELD("frame.code", _PyInterpreterFrame, f_executable);
    FIELD("frame.instruction", _PyInterpreterFrame, instr_ptr);
#else
    FIELD("frame.code", _PyInterpreterFrame, f_code);
    FIELD("frame.instruction", _PyInterpreterFrame, prev_instr);
#endif
#if AT_LEAST(12)
    FIELD("frame.function", _PyInterpreterFrame, f_funcobj);
    ABSENT("frame.is_entry");
#else
    FIELD("frame.function", _PyInterpreterFrame, f_func);
    FIELD("frame.is_entry", _PyInterpreterFrame, is_entry);
#endif
#if AT_LEAST(14)
    ABSENT("frame.stacktop");
    FIELD("frame.stackpointer", _PyInterpreterFrame, stackpointer);
#else
    FIELD("frame.stacktop", _PyInterpreterFrame, stacktop);
    ABSENT("frame.stackpointer");
#endif
    FIELD("frame.owner", _PyInterpreterFrame, owner);
    ABSENT("frame.executing");
#if AT_LEAST(14) && defined(Py_GIL_DISABLED)
    FIELD("frame.tlbc_index", _PyInterpreterFrame, tlbc_index);
#else
    ABSENT("frame.tlbc_index");
#endif
    FIELD("frame.localsplus", _PyInterpreterFrame, localsplus);
    say("frame.owner_generator", FRAME_OWNED_BY_GENERATOR);
#if AT_LEAST(14)
    /* 3.14 has a FRAME_OWNED_BY_CSTACK as its highest value; no frame of it was ever seen. */
    ABSENT("frame.owner_cstack");
    say("frame.owner_interpreter", FRAME_OWNED_BY_INTERPRETER);
#elif AT_LEAST(12)
    say("frame.owner_cstack", FRAME_OWNED_BY_CSTACK);
    ABSENT("frame.owner_interpreter");
#else
    ABSENT("frame.owner_cstack");
    ABSENT("frame.owner_interpreter");
#endif
#if AT_LEAST(15)
    say("frame.owner_last", FRAME_OWNED_BY_INTERPRETER);
#elif AT_LEAST(12)
    say("frame.owner_last", FRAME_OWNED_BY_CSTACK);
#else
    say("frame.owner_last", FRAME_OWNED_BY_FRAME_OBJECT);
#endif
}
#else
static void print_frame(void) {
    say("frame.size", (long)offsetof(PyFrameObject, f_localsplus));
    FIELD("frame.back", PyFrameObject, f_back);
    FIELD("frame.code", PyFrameObject, f_code);
    FIELD("frame.instruction", PyFrameObject, f_lasti);
    ABSENT("frame.function");
    ABSENT("frame.is_entry");
    ABSENT("frame.stacktop");
    ABSENT("frame.stackpointer");
    ABSENT("frame.owner");
#if AT_LEAST(10)
    FIELD("frame.executing", PyFrameObject, f_state);
#else
    FIELD("frame.executing", PyFrameObject, f_executing);
#endif
    ABSENT("frame.tlbc_index");
    FIELD("frame.localsplus", PyFrameObject, f_localsplus);
    ABSENT("frame.owner_generator");
    ABSENT("frame.owner_cstack");
    ABSENT("frame.owner_interpreter");
    ABSENT("frame.owner_last");
}
#endif

static void print_code(void) {
    say("code.size", (long)sizeof(PyCodeObject));
    FIELD("code.filename", PyCodeObject, co_filename);
    FIELD("code.name", PyCodeObject, co_name);
    FIELD("code.first_line", PyCodeObject, co_firstlineno);
#if AT_LEAST(10)
    FIELD("code.line_table", PyCodeObject, co_linetable);
#else
    FIELD("code.line_table", PyCodeObject, co_lnotab);
#endif
    FIELD("code.flags", PyCodeObject, co_flags);
    FIELD("code.argument_count", PyCodeObject, co_argcount);
#if AT_LEAST(11)
    FIELD("code.unit_count", PyVarObject, ob_size);
    FIELD("code.qualname", PyCodeObject, co_qualname);
    FIELD("code.bytecode", PyCodeObject, co_code_adaptive);
    FIELD("code.nlocalsplus", PyCodeObject, co_nlocalsplus);
    FIELD("code.first_traceable", PyCodeObject, _co_firsttraceable);
    FIELD("code.local_names", PyCodeObject, co_localsplusnames);
    FIELD("code.local_kinds", PyCodeObject, co_localspluskinds);
#else
    ABSENT("code.unit_count");
    ABSENT("code.qualname");
    FIELD("code.bytecode", PyCodeObject, co_code);
    ABSENT("code.nlocalsplus");
    ABSENT("code.first_traceable");
    FIELD("code.local_names", PyCodeObject, co_varnames);
    ABSENT("code.local_kinds");
#endif
#if AT_LEAST(12)
    FIELD("code.version", PyCodeObject, co_version);
    FIELD("code.frame_size", PyCodeObject, co_framesize);
#elif AT_LEAST(11)
    ABSENT("code.version");
    ABSENT("code.frame_size"); /* 3.11 computes it: nlocalsplus + stacksize + frame header */
#else
    ABSENT("code.version");
    ABSENT("code.frame_size");
#endif
#if AT_LEAST(14) && defined(Py_GIL_DISABLED)
    FIELD("code.tlbc", PyCodeObject, co_tlbc);
#else
    ABSENT("code.tlbc");
#endif
}

static void print_generator(void) {
#if AT_LEAST(11)
    FIELD("function.code", PyFunctionObject, func_code);
    FIELD("function.qualname", PyFunctionObject, func_qualname);
    FIELD("function.version", PyFunctionObject, func_version);
    FIELD("generator.frame", PyGenObject, gi_iframe);
    FIELD("generator.frame_state", PyGenObject, gi_frame_state);
#else
    FIELD("function.code", PyFunctionObject, func_code);
    FIELD("function.qualname", PyFunctionObject, func_qualname);
    ABSENT("function.version");
    FIELD("generator.frame", PyGenObject, gi_frame);
    ABSENT("generator.frame_state");
#endif
    FIELD("generator.name", PyGenObject, gi_name);
    FIELD("generator.qualname", PyGenObject, gi_qualname);
}

static void print_objects(void) {
    say("object.header_size", (long)sizeof(PyObject));
    FIELD("object.type", PyObject, ob_type);
    FIELD("type.name", PyTypeObject, tp_name);
    FIELD("type.basic_size", PyTypeObject, tp_basicsize);
    FIELD("type.dict_offset", PyTypeObject, tp_dictoffset);
    FIELD("type.flags", PyTypeObject, tp_flags);
    FIELD("type.base", PyTypeObject, tp_base);
    FIELD("type.cached_keys", PyHeapTypeObject, ht_cached_keys);
    FIELD("unicode.length", PyASCIIObject, length);
    FIELD("unicode.state", PyASCIIObject, state);
    say("unicode.ascii_data", (long)sizeof(PyASCIIObject));
    say("unicode.compact_data", (long)sizeof(PyCompactUnicodeObject));
#if AT_LEAST(14) && defined(Py_GIL_DISABLED)
    say("unicode.wide_interned", 1);
#else
    say("unicode.wide_interned", 0);
#endif
    FIELD("bytes.size", PyVarObject, ob_size);
    FIELD("bytes.data", PyBytesObject, ob_sval);
    FIELD("tuple.size", PyVarObject, ob_size);
    FIELD("tuple.items", PyTupleObject, ob_item);
    FIELD("dict.keys", PyDictObject, ma_keys);
    FIELD("dict.values", PyDictObject, ma_values);
#if AT_LEAST(13)
    FIELD("dict.values_data", struct _dictvalues, values);
#else
    say("dict.values_data", 0);
#endif
    FIELD("module.dict", PyModuleObject, md_dict);
#if AT_LEAST(12)
    FIELD("integer.tag", PyLongObject, long_value.lv_tag);
    FIELD("integer.digits", PyLongObject, long_value.ob_digit);
#else
    FIELD("integer.tag", PyVarObject, ob_size);
    FIELD("integer.digits", struct _longobject, ob_digit);
#endif
#if AT_LEAST(13)
    say("managed_dict_back", -(long)MANAGED_DICT_OFFSET);
#elif AT_LEAST(11)
    say("managed_dict_back", 3 * (long)sizeof(PyObject *));
#else
    ABSENT("managed_dict_back");
#endif
}

int main(void) {
    printf("version %d.%d\n", PY_MAJOR_VERSION, PY_MINOR_VERSION);
    print_runtime();
    print_interpreter();
    print_gil();
    print_thread();
    print_frame();
    print_code();
    print_generator();
    print_objects();
    return 0;
}
