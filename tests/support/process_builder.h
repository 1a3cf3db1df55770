// SPDX-License-Identifier: Apache-2.0
//
// Frames, threads, interpreters and a runtime of any Layout in a FakeMemory, on top of ObjectBuilder.
#pragma once

#include "support/object_builder.h"

#include <vector>

namespace pyprof::test {

class ProcessBuilder : public ObjectBuilder {
public:
    using ObjectBuilder::ObjectBuilder;

    struct FrameSpec {
        Address code{};
        Address back{};
        int index = 0;  // of the instruction: bytes in 3.8 and 3.9, code units later; -1: not begun
        Address function{};
        std::int64_t stack = 0;    // stacktop (3.11 to 3.13) or stackpointer (3.14 on); < 0 or 0: running
        int owner = 0;             // 3.11 on
        bool is_entry = false;     // 3.11
        bool is_executing = true;  // f_executing or f_state, up to 3.10
        unsigned tag = 0;          // low bits of f_executable, 3.14 on
    };
    // Writes a frame's fields at an address; what the version lacks is left out.
    void put_frame(Address at, const FrameSpec& spec);
    // A frame of its own on the heap: every frame up to 3.10, those of generators later.
    Address heap_frame(const FrameSpec& spec);
    // The frame that stands on the C stack where C code entered the interpreter, 3.12 on.
    Address shim(Address back);
    // A generator whose frame (embedded from 3.11 on) this is.
    struct Generator {
        Address object{};
        Address frame{};
    };
    Generator generator(FrameSpec spec);

    // The chunk of frames of one thread, 3.11 on.
    struct DataStack {
        Address chunk{};
        Address top{};
        Address limit{};
    };
    DataStack data_stack(std::size_t bytes = 16 * 1024, Address previous = kNullAddress);
    // A frame at the top; the next one stands behind its locals and stack.
    Address push_frame(DataStack& stack, const FrameSpec& spec, std::size_t words = 4);
    // On the data stack where the version has one, else on the heap.
    Address any_frame(DataStack& stack, const FrameSpec& spec);

    struct ThreadSpec {
        Address interpreter{};
        Address leaf{};  // the current frame
        std::uint64_t thread_id = 0x7f0000001000;
        std::uint64_t native_id = 100;
        std::uint64_t id = 1;
        DataStack stack;
        bool holds_gil = false;  // in the thread itself, 3.13 on; see also set_gil
        int state = 0;           // 3.13 on
    };
    Address thread(const ThreadSpec& spec);
    // Changes the leaf: thread.frame, the cframe's cell or thread.current_frame.
    void set_leaf(Address thread, Address frame);

    // An interpreter with its own GIL where the version has one there. Threads: newest first.
    Address interpreter(std::uint64_t id = 0);
    void set_threads(Address interpreter, const std::vector<Address>& threads);
    void set_modules(Address interpreter, Address modules);
    // Who holds the GIL, in the runtime or the interpreter; kNullAddress: nobody.
    void set_gil(Address runtime, Address interpreter, Address holder);
    void take_gil(Address runtime, Address interpreter, Address thread);  // who did not hold it last

    // _PyRuntime with its interpreters, newest first. `start` are its first bytes (debug offsets).
    Address runtime(const std::vector<Address>& interpreters, std::span<const std::byte> start = {});
};

}  // namespace pyprof::test
