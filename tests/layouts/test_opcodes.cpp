// SPDX-License-Identifier: Apache-2.0
//
// The opcode tables against interpreters: their own modules say the numbers, and the frames of threads
// that wait below every kind of call (live_calls.py) say which opcodes a caller can stand on and where
// the called function's version is cached.
#include "layouts/facts.h"
#include "layouts/interpreters.h"
#include "python/layouts.h"
#include "python/objects.h"
#include "python/opcodes.h"
#include "support/files.h"
#include "target/process_memory.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace pyprof;
using namespace pyprof::test;

namespace {

const std::set<std::string> kReturnNames = {"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR",
                                            "YIELD_VALUE"};

struct Frame {
    Address address{};
    Address code{};
    Address function{};
    Address instruction{};
    bool is_shim = false;
    bool is_entry = false;
    bool of_generator = false;
};

class Process {
public:
    Process(pid_t pid, const Layout& layout) : memory_(pid), layout_(layout) {}

    Address pointer(Address base, Offset offset) {
        return read_pointer(memory_, base + at(offset)).value_or(kNullAddress);
    }
    Memory& memory() { return memory_; }

    std::vector<Address> threads(Address runtime) {
        std::vector<Address> all;
        const Address interpreter = pointer(runtime, layout_.runtime.interpreters_head);
        for (Address thread = pointer(interpreter, layout_.interpreter.threads_head);
             thread != kNullAddress && all.size() < 1000; thread = pointer(thread, layout_.thread.next)) {
            all.push_back(thread);
        }
        return all;
    }

    std::vector<Frame> frames(Address thread) {
        std::vector<Frame> all;
        const bool through_cframe = layout_.frame_root == FrameRoot::kThreadCframe;
        const Address holder = through_cframe ? pointer(thread, layout_.thread.cframe) : thread;
        const Offset leaf = through_cframe ? layout_.cframe.current_frame : layout_.thread.current_frame;
        for (Address frame = pointer(holder, leaf); frame != kNullAddress && all.size() < 1000;
             frame = pointer(frame, layout_.frame.back)) {
            all.push_back(read_frame(frame));
        }
        return all;
    }

    std::string name_of(const Frame& frame) {
        return read_unicode(memory_, layout_, pointer(frame.code, layout_.code.name)).value_or("?");
    }

    // The version that the interpreter compares with a call's inline cache.
    std::uint32_t version_of(const Frame& frame) {
        const bool in_code = has(layout_.code.version);
        const Address place =
            in_code ? frame.code + at(layout_.code.version) : frame.function + at(layout_.function.version);
        return read_value<std::uint32_t>(memory_, place).value_or(0);
    }

    bool is_hidden(const Frame& frame) {
        const Offset field = layout_.code.first_traceable;
        const auto first = read_value<std::int32_t>(memory_, frame.code + at(field)).value_or(0);
        const Address start = frame.code + at(layout_.code.bytecode);
        return static_cast<std::int64_t>(distance(start, frame.instruction)) / 2 < first &&
               !frame.of_generator;
    }

    // The interpreter's own static code object, which no file holds.
    bool is_code_of_init_cleanup(const Frame& frame) {
        return name_of(frame) == "__init__" &&
               read_unicode(memory_, layout_, pointer(frame.code, layout_.code.filename)) != "<string>";
    }

private:
    Frame read_frame(Address address) {
        Frame frame;
        frame.address = address;
        frame.code = Address{raw(pointer(address, layout_.frame.code)) & layout_.pointer_mask};
        frame.function = Address{raw(pointer(address, layout_.frame.function)) & layout_.pointer_mask};
        frame.instruction = pointer(address, layout_.frame.instruction);
        const auto owner = read_value<std::int8_t>(memory_, address + at(layout_.frame.owner)).value_or(0);
        frame.is_shim = (has(layout_.frame.owner_cstack) && owner == layout_.frame.owner_cstack) ||
                        (has(layout_.frame.owner_interpreter) && owner == layout_.frame.owner_interpreter);
        frame.of_generator = owner == layout_.frame.owner_generator;
        if (has(layout_.frame.is_entry)) {
            frame.is_entry =
                read_value<std::uint8_t>(memory_, address + at(layout_.frame.is_entry)).value_or(0) != 0;
        }
        return frame;
    }

    ProcessMemory memory_;
    const Layout& layout_;
};

struct Seen {
    std::map<std::uint8_t, std::size_t> opcodes;  // of callers without C between
    std::size_t versions = 0;                     // callees that their caller's cache names
};

// Every caller of a thread's chain whose callee was pushed without C.
void check_callers(Process& process, const Opcodes& opcodes, const std::vector<Frame>& frames, Seen& seen) {
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
        const Frame& callee = frames[i];
        const Frame& caller = frames[i + 1];
        if (callee.is_shim || callee.is_entry || caller.is_shim) continue;
        CAPTURE(process.name_of(callee), process.name_of(caller));
        constexpr std::size_t kBefore = 2 * Opcodes::kMaxCacheUnits;
        std::vector<std::byte> around(kBefore + 2);
        REQUIRE(read_bytes(process.memory(), caller.instruction - kBefore, around));
        const auto opcode = opcodes.waiting_opcode(around);
        REQUIRE(opcode);
        ++seen.opcodes[*opcode];
        // Only the frame below an __init__ stands before the first traceable instruction.
        CHECK(process.is_hidden(caller) == (process.is_code_of_init_cleanup(caller)));
        if (!opcodes.is(*opcode, kHasFunctionVersion)) continue;
        const auto place =
            raw(caller.instruction) + static_cast<std::uint64_t>(opcodes.function_version_offset);
        const auto cached = read_value<std::uint32_t>(process.memory(), Address{place});
        CHECK(cached == process.version_of(callee));
        CHECK(cached != 0U);
        const auto plain = raw(caller.instruction) + static_cast<std::uint64_t>(opcodes.opcode_offset);
        CHECK(read_value<std::uint8_t>(process.memory(), Address{plain}) == *opcode);
        ++seen.versions;
    }
}

bool belongs(const std::string& name, std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const char* part) { return name.find(part) != std::string::npos; });
}

// The interpreter's own numbers: a number whose name has no such meaning carries no class.
void check_numbers(const Opcodes& opcodes, const std::map<std::string, int>& numbers) {
    for (const auto& [name, number] : numbers) {
        if (number > 255) continue;
        CAPTURE(name, number);
        const auto opcode = static_cast<std::uint8_t>(number);
        if (kReturnNames.count(name) != 0) CHECK(opcodes.is(opcode, kReturns));
        if (opcodes.is(opcode, kReturns)) CHECK(belongs(name, {"RETURN", "YIELD", "INTERPRETER_EXIT"}));
        if (opcodes.is(opcode, kHasFunctionVersion))
            CHECK(belongs(name, {"CALL_PY", "CALL_BOUND_METHOD", "CALL_KW_"}));
        if (opcodes.is(opcode, kCallsPython)) {
            CHECK(belongs(name, {"CALL", "SEND", "FOR_ITER_GEN", "GETITEM", "PROPERTY", "OVERRIDDEN",
                                 "INSTRUMENTED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK"}));
            CHECK_FALSE(belongs(name, {"NON_PY", "BUILTIN", "NO_KW", "DESCRIPTOR", "INTRINSIC", "END_SEND"}));
        }
    }
    CHECK(opcodes.is(static_cast<std::uint8_t>(numbers.at("CALL_PY_EXACT_ARGS")), kCallsPythonStrict));
    CHECK(opcodes.is(static_cast<std::uint8_t>(numbers.at("CALL")), kCallsPython));
}

}  // namespace

TEST_CASE("opcodes: callers wait on opcodes that call Python, and caches name the callee") {
    for (const Interpreter& interpreter : interpreters(PYPROF_TEST_DIR)) {
        const int minor = std::stoi(interpreter.version.substr(2));
        const Opcodes* opcodes = opcodes_of(3, minor);
        if (opcodes == nullptr) continue;
        CAPTURE(interpreter.build());
        PythonProgram program(interpreter, read_text(PYPROF_TEST_DIR "/layouts/live_calls.py"));
        const auto facts = parse_facts(program.read_until_ready());
        REQUIRE(facts.size() > 50);
        REQUIRE(facts.back().kind == "ready");
        std::map<std::string, int> numbers;
        std::map<int, std::string> names;
        for (const Fact& fact : facts) {
            if (fact.kind != "opcode") continue;
            numbers[fact.words.at(0)] = static_cast<int>(fact.number(1));
            names[static_cast<int>(fact.number(1))] = fact.words.at(0);
        }
        check_numbers(*opcodes, numbers);

        const Address runtime = facts.front().address();
        std::vector<std::byte> start(kDebugOffsetsBytes);
        ProcessMemory memory(program.pid());
        REQUIRE(read_bytes(memory, runtime, start));
        const auto layout = layout_for({3, minor, 0, 0}, start);
        REQUIRE(layout);
        Process process(program.pid(), *layout);
        Seen seen;
        for (const Address thread : process.threads(runtime)) {
            check_callers(process, *opcodes, process.frames(thread), seen);
        }
        std::string list;
        for (const auto& [opcode, count] : seen.opcodes)
            list += " " + names[opcode] + ":" + std::to_string(count);
        INFO("callers wait on" << list);
        CHECK(seen.opcodes.size() >= 1);
        const bool specialises = !(minor == 13 && layout->free_threaded);  // 3.13 does not without the GIL
        if (specialises) {
            CHECK(seen.versions >= 5);
            CHECK(seen.opcodes.size() >= 5);
        }
        if (std::getenv("PYPROF_SHOW") != nullptr) WARN(interpreter.build() << " callers wait on" << list);
    }
}

TEST_CASE("opcodes: versions without inline calls have no table") {
    CHECK(opcodes_of(3, 10) == nullptr);
    CHECK(opcodes_of(3, 16) == nullptr);
    CHECK(opcodes_of(2, 13) == nullptr);
}
