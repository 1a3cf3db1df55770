// SPDX-License-Identifier: Apache-2.0
//
// The Layout of a 3.13 or later interpreter: what its debug offsets describe, and what they leave out.
// A field that is left out is given by its distance from a described neighbour in the same struct, which
// is the same for release, debug and free-threaded builds (tests/layouts checks each from the headers).
#include "python/debug_offsets.h"
#include "python/layouts.h"

#include <fmt/format.h>

namespace pyprof {

namespace {

// What the versions differ in beyond their debug offsets.
struct Rest {
    Offset state_after_status = 0;   // PyThreadState.state
    Offset function_version = 0;     // after the object header
    bool tagged_references = false;  // frames hold _PyStackRef: two tag bits
    bool has_stacktop = false;       // int below `owner`, else a described stackpointer
    GilKind gil_kind = GilKind::kThreadInt;
    std::uint32_t holds_gil_bit = 0;
    std::int32_t owner_cstack = kAbsent;
    std::int32_t owner_interpreter = kAbsent;
    std::int32_t owner_last = 3;
    bool interned_is_a_byte = false;  // free-threaded builds only
};

constexpr Rest kRest[] = {
    // 3.13: _status bit 5 tells the holder; the shim on the C stack has owner 3.
    {.state_after_status = 8,
     .function_version = 120,
     .has_stacktop = true,
     .gil_kind = GilKind::kStatusBit,
     .holds_gil_bit = 1U << 5U,
     .owner_cstack = 3},
    // 3.14: references are tagged; the shim is FRAME_OWNED_BY_INTERPRETER; 4 exists, but was never seen.
    {.state_after_status = 12,
     .function_version = 128,
     .tagged_references = true,
     .owner_interpreter = 3,
     .owner_last = 4,
     .interned_is_a_byte = true},
    // 3.15
    {.state_after_status = 16,
     .function_version = 128,
     .tagged_references = true,
     .owner_interpreter = 3,
     .interned_is_a_byte = true},
};
constexpr int kFirstRest = 13;

// The offset of a described field, and whether it could be one (DebugOffsets has bounded it).
class Described {
public:
    explicit Described(const DebugOffsets& offsets) : offsets_(offsets) {}
    [[nodiscard]] Offset operator()(std::string_view name) const {
        return static_cast<Offset>(offsets_.at(name));
    }
    // Described from some later version on; before, at a known distance from a neighbour.
    [[nodiscard]] Offset or_else(std::string_view name, Offset otherwise) const {
        const Offset offset = (*this)(name);
        return has(offset) ? offset : otherwise;
    }
    [[nodiscard]] std::uint32_t size(std::string_view name) const {
        return static_cast<std::uint32_t>(offsets_.at(name));
    }

private:
    const DebugOffsets& offsets_;
};

void fill_interpreter(Layout& layout, const Described& of) {
    layout.runtime.interpreters_head = of("runtime_state.interpreters_head");
    Layout::Interpreter& interpreter = layout.interpreter;
    interpreter.size = of.size("interpreter_state.size");
    interpreter.next = of("interpreter_state.next");
    interpreter.id = of("interpreter_state.id");
    interpreter.threads_head = of("interpreter_state.threads_head");
    interpreter.threads_main = of.or_else("interpreter_state.threads_main", interpreter.threads_head + 8);
    interpreter.gil = of("interpreter_state.ceval_gil");
    interpreter.own_gil = of("interpreter_state.gil_runtime_state");
    interpreter.imports_modules = of("interpreter_state.imports_modules");
    interpreter.code_object_generation = of("interpreter_state.code_object_generation");
    const Offset gc = of("interpreter_state.gc");
    interpreter.gc_collecting = gc + of("gc.collecting");
    if (has(of("gc.frame"))) interpreter.gc_frame = gc + of("gc.frame");
    if (layout.free_threaded) layout.gil.enabled = 0;  // first in struct _gil_runtime_state (pycore_gil.h)
    layout.gil.last_holder = of("interpreter_state.gil_runtime_state_holder") - interpreter.own_gil;
    layout.gil.locked = of("interpreter_state.gil_runtime_state_locked") - interpreter.own_gil;
    layout.gil.switch_number = layout.gil.locked + 8;  // the next field
}

void fill_thread(Layout& layout, const Described& of, const Rest& rest) {
    Layout::Thread& thread = layout.thread;
    thread.size = of.size("thread_state.size");
    thread.prev = of("thread_state.prev");
    thread.next = of("thread_state.next");
    thread.interp = of("thread_state.interp");
    thread.current_frame = of("thread_state.current_frame");
    thread.base_frame = of("thread_state.base_frame");
    thread.status = of("thread_state.status");
    thread.state = thread.status + rest.state_after_status;
    thread.holds_gil_bit = rest.holds_gil_bit;
    if (rest.gil_kind == GilKind::kThreadInt) {
        thread.holds_gil = of.or_else("thread_state.holds_gil", thread.status + 4);
    }
    thread.gil_requested = of("thread_state.gil_requested");
    thread.thread_id = of("thread_state.thread_id");
    thread.native_thread_id = of("thread_state.native_thread_id");
    thread.dict = thread.thread_id - 24;  // dict, gilstate_counter, async_exc, thread_id
    thread.datastack_chunk = of("thread_state.datastack_chunk");
    thread.id = thread.datastack_chunk - 8;
    thread.datastack_top = thread.datastack_chunk + 8;
    thread.datastack_limit = thread.datastack_chunk + 16;
}

void fill_frame(Layout& layout, const Described& of, const Rest& rest) {
    Layout::Frame& frame = layout.frame;
    frame.localsplus = of("interpreter_frame.localsplus");
    frame.size = static_cast<std::uint32_t>(frame.localsplus);
    frame.back = of("interpreter_frame.previous");
    frame.code = of("interpreter_frame.executable");
    frame.function = frame.back + 8;
    frame.instruction = of("interpreter_frame.instr_ptr");
    frame.owner = of("interpreter_frame.owner");
    if (rest.has_stacktop) {
        frame.stacktop = frame.instruction + 8;
    } else {
        frame.stackpointer = of("interpreter_frame.stackpointer");
    }
    frame.tlbc_index = of("interpreter_frame.tlbc_index");
    frame.owner_generator = 1;
    frame.owner_cstack = rest.owner_cstack;
    frame.owner_interpreter = rest.owner_interpreter;
    frame.owner_last = rest.owner_last;
}

void fill_code(Layout& layout, const Described& of, const Rest& rest) {
    const auto header = static_cast<Offset>(layout.object.header_size);
    Layout::Code& code = layout.code;
    code.size = of.size("code_object.size");
    code.unit_count = header;  // ob_size
    code.filename = of("code_object.filename");
    code.name = of("code_object.name");
    code.qualname = of("code_object.qualname");
    code.first_line = of("code_object.firstlineno");
    code.line_table = of("code_object.linetable");
    code.bytecode = of("code_object.co_code_adaptive");
    code.argument_count = of("code_object.argcount");
    code.flags = code.argument_count - 4;
    // co_firstlineno, co_nlocalsplus, co_framesize, then four counts of locals and co_version.
    code.nlocalsplus = code.first_line + 4;
    code.frame_size = code.first_line + 8;
    code.version = code.first_line + 24;
    code.local_names = of("code_object.localsplusnames");
    code.local_kinds = of("code_object.localspluskinds");
    code.tlbc = of("code_object.co_tlbc");
    // _co_firsttraceable, co_extra, then co_tlbc where there is one, then the bytecode.
    code.first_traceable = (has(code.tlbc) ? code.tlbc : code.bytecode) - 16;
    layout.function.code = header + 32;
    layout.function.qualname = header + 24;
    layout.function.version = header + rest.function_version;
    layout.generator.name = of.or_else("gen_object.gi_name", header + 8);
    layout.generator.qualname = layout.generator.name + 8;
    layout.generator.frame = of.or_else("gen_object.gi_iframe", header + 56);
    layout.generator.frame_state = of.or_else("gen_object.gi_frame_state", header + 51);
}

void fill_objects(Layout& layout, const Described& of, const Rest& rest) {
    const auto header = static_cast<Offset>(layout.object.header_size);
    layout.object.type = of("pyobject.ob_type");
    Layout::Type& type = layout.type;
    type.name = of("type_object.tp_name");
    type.flags = of("type_object.tp_flags");
    type.basic_size = of.or_else("type_object.tp_basicsize", type.name + 8);
    type.base = type.name + 232;
    type.dict_offset = of.or_else("type_object.tp_dictoffset", type.name + 264);
    type.cached_keys = of.or_else("heap_type_object.ht_cached_keys", header + 864);
    Layout::Unicode& unicode = layout.unicode;
    unicode.length = of("unicode_object.length");
    unicode.state = of("unicode_object.state");
    unicode.ascii_data = of("unicode_object.asciiobject_size");
    unicode.compact_data = of.or_else("unicode_object.compactunicodeobject_size", unicode.ascii_data + 16);
    unicode.wide_interned = layout.free_threaded && rest.interned_is_a_byte;
    layout.bytes = {.size = of("bytes_object.ob_size"), .data = of("bytes_object.ob_sval")};
    layout.tuple = {.size = of("tuple_object.ob_size"), .items = of("tuple_object.ob_item")};
    layout.dict = {.keys = of("dict_object.ma_keys"),
                   .values = of("dict_object.ma_values"),
                   .values_data = 8,
                   .keys_kind = DictKeysKind::kTypedEntries};
    layout.module.dict = header;
    layout.integer = {.tag = of("long_object.lv_tag"), .digits = of("long_object.ob_digit"), .tagged = true};
    // MANAGED_DICT_OFFSET: before an object stand its weak references, its dict and, with a GIL, two words
    // of the collector.
    layout.managed_dict_back = layout.free_threaded ? 8 : 24;
    layout.instance_values = InstanceValues::kInline;
}

// The fields given by distance must lie within their struct like the others.
bool fits(const Layout& layout) {
    const auto within = [](Offset offset, std::uint32_t width, std::uint32_t size) {
        return offset >= 0 && static_cast<std::uint32_t>(offset) + width <= size;
    };
    const Layout::Thread& thread = layout.thread;
    const Layout::Code& code = layout.code;
    return within(thread.dict, 8, thread.size) && within(thread.id, 8, thread.size) &&
           within(thread.state, 4, thread.size) && within(thread.datastack_limit, 8, thread.size) &&
           within(code.flags, 4, code.size) && within(code.version, 4, code.size) &&
           within(code.first_traceable, 4, code.size) &&
           within(layout.frame.function, 8, layout.frame.size) && within(layout.gil.locked, 16, 128) &&
           within(layout.gil.last_holder, 8, 128) &&
           layout.object.header_size == (layout.free_threaded ? 32U : 16U) &&
           within(layout.interpreter.threads_main, 8, layout.interpreter.size) &&
           within(layout.interpreter.gc_collecting, 4, layout.interpreter.size);
}

}  // namespace

Result<Layout> layout_from_debug_offsets(std::span<const std::byte> runtime) {
    auto offsets = DebugOffsets::parse(runtime);
    if (!offsets) return tl::unexpected(offsets.error());
    Layout layout;
    layout.version = version_from_hex(offsets->version_hex());
    const auto index = static_cast<std::size_t>(layout.version.minor - kFirstRest);
    check(index < std::size(kRest), "layouts: debug offsets of a version without a row");
    const Rest& rest = kRest[index];
    const Described of(*offsets);

    layout.free_threaded = offsets->free_threaded();
    layout.from_debug_offsets = true;
    if (rest.tagged_references) layout.pointer_mask = ~3ULL;
    layout.frame_root = FrameRoot::kThreadCurrent;
    layout.instruction_kind = InstructionKind::kInstructionPointer;
    layout.line_table_kind = LineTableKind::kLocations;
    layout.gil_kind = rest.gil_kind;
    layout.object.header_size = of.size("pyobject.size");
    fill_interpreter(layout, of);
    fill_thread(layout, of, rest);
    fill_frame(layout, of, rest);
    fill_code(layout, of, rest);
    fill_objects(layout, of, rest);
    if (!fits(layout)) {
        return fail(
            ExitCode::kFailure,
            fmt::format("the debug offsets of Python {} make no sense together", to_string(layout.version)),
            "the interpreter's memory is damaged or it is a changed build");
    }
    return layout;
}

}  // namespace pyprof
