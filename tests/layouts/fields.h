// SPDX-License-Identifier: Apache-2.0
//
// Every number of a Layout under the name that offsets.c prints it by. A field that is added to Layout
// is added here and in offsets.c; the test fails where one of the two is missing.
#pragma once

#include <pyprof/layout.h>

#include <map>
#include <string>

namespace pyprof::test {

inline std::map<std::string, long> fields_of(const Layout& layout) {
    std::map<std::string, long> all;
    const auto add = [&](const char* name, auto value) { all[name] = static_cast<long>(value); };
    add("runtime.interpreters_head", layout.runtime.interpreters_head);
    add("runtime.main_thread", layout.runtime.main_thread);
    add("runtime.gil_last_holder", layout.runtime.gil_last_holder);
    add("runtime.gil_locked", layout.runtime.gil_locked);
    add("runtime.gil_switch_number", layout.runtime.gil_switch_number);
    add("runtime.tstate_current", layout.runtime.tstate_current);
    add("runtime.gc_collecting", layout.runtime.gc_collecting);
    add("interpreter.size", layout.interpreter.size);
    add("interpreter.next", layout.interpreter.next);
    add("interpreter.id", layout.interpreter.id);
    add("interpreter.threads_head", layout.interpreter.threads_head);
    add("interpreter.threads_main", layout.interpreter.threads_main);
    add("interpreter.gil", layout.interpreter.gil);
    add("interpreter.own_gil", layout.interpreter.own_gil);
    add("interpreter.imports_modules", layout.interpreter.imports_modules);
    add("interpreter.gc_collecting", layout.interpreter.gc_collecting);
    add("interpreter.gc_frame", layout.interpreter.gc_frame);
    add("interpreter.code_object_generation", layout.interpreter.code_object_generation);
    add("interpreter.trampoline_code", layout.interpreter.trampoline_code);
    add("gil.enabled", layout.gil.enabled);
    add("gil.last_holder", layout.gil.last_holder);
    add("gil.locked", layout.gil.locked);
    add("gil.switch_number", layout.gil.switch_number);
    add("thread.size", layout.thread.size);
    add("thread.prev", layout.thread.prev);
    add("thread.next", layout.thread.next);
    add("thread.interp", layout.thread.interp);
    add("thread.frame", layout.thread.frame);
    add("thread.cframe", layout.thread.cframe);
    add("thread.current_frame", layout.thread.current_frame);
    add("thread.base_frame", layout.thread.base_frame);
    add("thread.status", layout.thread.status);
    add("thread.holds_gil", layout.thread.holds_gil);
    add("thread.gil_requested", layout.thread.gil_requested);
    add("thread.state", layout.thread.state);
    add("thread.thread_id", layout.thread.thread_id);
    add("thread.native_thread_id", layout.thread.native_thread_id);
    add("thread.id", layout.thread.id);
    add("thread.dict", layout.thread.dict);
    add("thread.datastack_chunk", layout.thread.datastack_chunk);
    add("thread.datastack_top", layout.thread.datastack_top);
    add("thread.datastack_limit", layout.thread.datastack_limit);
    add("thread.holds_gil_bit", layout.thread.holds_gil_bit);
    add("cframe.current_frame", layout.cframe.current_frame);
    add("cframe.previous", layout.cframe.previous);
    add("chunk.previous", layout.chunk.previous);
    add("chunk.size", layout.chunk.size);
    add("chunk.top", layout.chunk.top);
    add("chunk.data", layout.chunk.data);
    add("frame.size", layout.frame.size);
    add("frame.back", layout.frame.back);
    add("frame.code", layout.frame.code);
    add("frame.function", layout.frame.function);
    add("frame.instruction", layout.frame.instruction);
    add("frame.stacktop", layout.frame.stacktop);
    add("frame.stackpointer", layout.frame.stackpointer);
    add("frame.owner", layout.frame.owner);
    add("frame.is_entry", layout.frame.is_entry);
    add("frame.executing", layout.frame.executing);
    add("frame.tlbc_index", layout.frame.tlbc_index);
    add("frame.localsplus", layout.frame.localsplus);
    add("frame.owner_generator", layout.frame.owner_generator);
    add("frame.owner_cstack", layout.frame.owner_cstack);
    add("frame.owner_interpreter", layout.frame.owner_interpreter);
    add("frame.owner_last", layout.frame.owner_last);
    add("code.size", layout.code.size);
    add("code.unit_count", layout.code.unit_count);
    add("code.filename", layout.code.filename);
    add("code.name", layout.code.name);
    add("code.qualname", layout.code.qualname);
    add("code.first_line", layout.code.first_line);
    add("code.line_table", layout.code.line_table);
    add("code.bytecode", layout.code.bytecode);
    add("code.flags", layout.code.flags);
    add("code.version", layout.code.version);
    add("code.frame_size", layout.code.frame_size);
    add("code.nlocalsplus", layout.code.nlocalsplus);
    add("code.first_traceable", layout.code.first_traceable);
    add("code.argument_count", layout.code.argument_count);
    add("code.local_names", layout.code.local_names);
    add("code.local_kinds", layout.code.local_kinds);
    add("code.tlbc", layout.code.tlbc);
    add("function.code", layout.function.code);
    add("function.qualname", layout.function.qualname);
    add("function.version", layout.function.version);
    add("generator.frame", layout.generator.frame);
    add("generator.frame_state", layout.generator.frame_state);
    add("generator.name", layout.generator.name);
    add("generator.qualname", layout.generator.qualname);
    add("object.header_size", layout.object.header_size);
    add("object.type", layout.object.type);
    add("type.name", layout.type.name);
    add("type.basic_size", layout.type.basic_size);
    add("type.dict_offset", layout.type.dict_offset);
    add("type.flags", layout.type.flags);
    add("type.base", layout.type.base);
    add("type.cached_keys", layout.type.cached_keys);
    add("unicode.length", layout.unicode.length);
    add("unicode.state", layout.unicode.state);
    add("unicode.ascii_data", layout.unicode.ascii_data);
    add("unicode.compact_data", layout.unicode.compact_data);
    add("unicode.wide_interned", layout.unicode.wide_interned);
    add("bytes.size", layout.bytes.size);
    add("bytes.data", layout.bytes.data);
    add("tuple.size", layout.tuple.size);
    add("tuple.items", layout.tuple.items);
    add("dict.keys", layout.dict.keys);
    add("dict.values", layout.dict.values);
    add("dict.values_data", layout.dict.values_data);
    add("module.dict", layout.module.dict);
    add("integer.tag", layout.integer.tag);
    add("integer.digits", layout.integer.digits);
    add("managed_dict_back", layout.managed_dict_back);
    return all;
}

}  // namespace pyprof::test
