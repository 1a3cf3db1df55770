// SPDX-License-Identifier: Apache-2.0
//
// Debug offsets of any bytes: what is accepted lies within its structs, so that no field of a copied
// struct is read beyond it.
#include "python/layouts.h"

using namespace pyprof;

namespace {

void check_within(Offset offset, std::uint32_t width, std::uint32_t size, const char* what) {
    if (!has(offset)) return;
    check(static_cast<std::uint32_t>(offset) + width <= size, what);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto layout = layout_from_debug_offsets(std::as_bytes(std::span(data, size)));
    if (!layout) {
        check(!layout.error().message.empty(), "an error says what is wrong");
        return 0;
    }
    const Layout::Thread& thread = layout->thread;
    for (const Offset offset :
         {thread.prev, thread.next, thread.interp, thread.current_frame, thread.base_frame, thread.thread_id,
          thread.native_thread_id, thread.id, thread.dict, thread.datastack_chunk, thread.datastack_top,
          thread.datastack_limit}) {
        check_within(offset, 8, thread.size, "a pointer of the thread state");
    }
    for (const Offset offset : {thread.status, thread.holds_gil, thread.gil_requested, thread.state}) {
        check_within(offset, 4, thread.size, "an int of the thread state");
    }
    const Layout::Frame& frame = layout->frame;
    for (const Offset offset : {frame.back, frame.code, frame.function, frame.instruction}) {
        check_within(offset, 8, 512, "a pointer of the frame");
    }
    const Layout::Code& code = layout->code;
    for (const Offset offset :
         {code.filename, code.name, code.qualname, code.line_table, code.local_names, code.tlbc}) {
        check_within(offset, 8, code.size, "a pointer of the code object");
    }
    for (const Offset offset : {code.first_line, code.flags, code.version, code.frame_size, code.nlocalsplus,
                                code.argument_count, code.first_traceable}) {
        check_within(offset, 4, code.size, "an int of the code object");
    }
    const Layout::Interpreter& interpreter = layout->interpreter;
    for (const Offset offset :
         {interpreter.next, interpreter.id, interpreter.threads_head, interpreter.gil,
          interpreter.imports_modules, interpreter.gc_frame, interpreter.code_object_generation}) {
        check_within(offset, 8, interpreter.size, "a pointer of the interpreter state");
    }
    return 0;
}
