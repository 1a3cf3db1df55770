// SPDX-License-Identifier: Apache-2.0
//
// What two copies prove, and what they must not: each case is one way in which a moving target looks as if
// it had stood still. proof_model.cpp has the rest, at random.
#include "sample/proof.h"

#include "reading.h"
#include "target_model.h"

#include <functional>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr int kCallUnit = 10;

// Frames as a program leaves them: callers wait at a call, the leaf executes.
struct Proving : Reading {
    explicit Proving(const Layout& which)
        : Reading(which), prover(memory, layout(), shape, codes, stacks, stack_builder) {}

    [[nodiscard]] bool has_opcodes() const { return shape.on_data_stack(); }
    [[nodiscard]] const OpcodeNumbers& numbers() const { return opcode_numbers(layout().version.minor); }
    // A function with a call at kCallUnit, whose inline cache names `version`.
    Address calling(const std::string& name, std::uint32_t version = 0, std::uint32_t callee_version = 0) {
        const Address made = code(name, version);
        if (!has_opcodes()) return made;
        put_opcode(made, kCallUnit, callee_version != 0 ? numbers().python_call : numbers().call);
        builder.put_field(unit(made, kCallUnit + 2), 0, callee_version, 4);
        return made;
    }
    Address unit(Address code_address, int number) const {
        return code_address + static_cast<std::uint64_t>(layout().code.bytecode) + static_cast<std::uint64_t>(number) * 2;
    }
    void put_opcode(Address code_address, int number, int opcode) {
        builder.put_field(unit(code_address, number), 0, static_cast<std::uint64_t>(opcode), 1);
    }
    [[nodiscard]] int index(int code_unit) const {  // as FrameSpec wants it
        return layout().instruction_kind == InstructionKind::kByteIndex ? code_unit * 2 : code_unit;
    }
    [[nodiscard]] int waiting_unit(int cache_units) const {
        return layout().instruction_kind == InstructionKind::kPreviousInstruction ? kCallUnit + cache_units : kCallUnit;
    }
    ProcessBuilder::FrameSpec waiting(Address code_address, Address back) {
        ProcessBuilder::FrameSpec spec;
        spec.code = code_address;
        spec.back = back;
        spec.index = index(has_opcodes() ? waiting_unit(numbers().cache_units) : kCallUnit);
        spec.stack = has(layout().frame.stackpointer) ? 0x7f1000000000 : 1;
        return spec;
    }
    ProcessBuilder::FrameSpec executing(Address code_address, Address back) {
        ProcessBuilder::FrameSpec spec = waiting(code_address, back);
        spec.index = index(5);
        spec.stack = has(layout().frame.stackpointer) ? 0 : -1;
        return spec;
    }
    // After its return, where the version leaves it intact.
    ProcessBuilder::FrameSpec left(Address code_address, Address back) {
        ProcessBuilder::FrameSpec spec = waiting(code_address, back);
        spec.index = index(30);
        spec.is_executing = false;
        if (has_opcodes()) put_opcode(code_address, 30, numbers().leave);
        return spec;
    }
    Address put(const ProcessBuilder::FrameSpec& spec) { return builder.any_frame(stack, spec); }

    // Frames, pointer, frames, from this leaf; whether its whole path is proved.
    bool prove(Address leaf) {
        builder.set_leaf(thread, leaf);
        if (sample(ThreadReader::Copies::kAround) != Status::kOk) return false;
        if (stack_builder.build(reader->walk(), chain) == StackBuilder::Built::kTorn) return false;
        return prover.prove(*reader, reader->walk(), chain);
    }
    void warm_up(Address leaf) {
        builder.set_leaf(thread, leaf);
        for (int i = 0; i < 3; ++i) (void)sample(ThreadReader::Copies::kAround);
    }
    [[nodiscard]] bool is_proved(const std::vector<Address>& root_first) {
        PathId path = kRootPath;
        for (const Address code_address : root_first) {
            const CodeIndex known = codes.find(code_address);
            if (known == kNoCode) return false;
            const auto child = stacks.find_path(path, codes.entry(known).identity);
            if (!child) return false;
            path = *child;
        }
        return stacks.is_proved(path);
    }
    // Does it once, when the pointer to the leaf is about to be read: between the two copies.
    void between_copies(std::function<void()> change) {
        memory.before_range = [this, change = std::move(change), done = false](FakeMemory&, const ReadRange& range) mutable {
            if (done || range.from != thread) return;
            done = true;
            change();
        };
    }

    PathProver prover;
    StackBuilder::Chain chain;
};

}  // namespace

TEST_CASE("proof: a stack that stands still is proved whole") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address leaf_code = p.calling("leaf");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address middle = p.put(p.waiting(f, root));
        const Address leaf = p.put(p.executing(leaf_code, middle));
        p.warm_up(leaf);
        CHECK(p.prove(leaf));
        CHECK(p.is_proved({main, f, leaf_code}));
    });
}

TEST_CASE("proof: one copy proves nothing") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address root = p.entered(p.executing(main, kNullAddress));
        for (int i = 0; i < 3; ++i) (void)p.sample(root, ThreadReader::Copies::kOne);
        REQUIRE(p.stack_builder.build(p.reader->walk(), p.chain) != StackBuilder::Built::kTorn);
        CHECK_FALSE(p.prover.prove(*p.reader, p.reader->walk(), p.chain));
        CHECK_FALSE(p.is_proved({main}));
    });
}

TEST_CASE("proof: a leaf that changes between the copies is not proved, its callers are") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address g = p.calling("g");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address leaf = p.put(p.executing(f, root));
        p.warm_up(leaf);
        p.between_copies([&] { p.builder.put_frame(leaf, p.executing(g, root)); });
        CHECK_FALSE(p.prove(leaf));
        CHECK(p.is_proved({main}));
        CHECK_FALSE(p.is_proved({main, g}));
        CHECK(p.prover.standing().frames == 1);  // main stood there when the sample was taken
        CHECK_FALSE(p.prover.standing().has_moved);
    });
}

TEST_CASE("proof: the rest of a callee above another caller is not proved") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address old_caller = p.calling("old_caller");
        const Address new_caller = p.calling("new_caller");
        const Address callee = p.calling("callee");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address caller = p.put(p.waiting(old_caller, root));
        const Address leaf = p.put(p.executing(callee, caller));
        p.warm_up(leaf);
        // Both returned, and another caller stands where the old one stood; the callee was not overwritten.
        p.between_copies([&] {
            p.builder.put_frame(caller, p.executing(new_caller, root));
            p.builder.put_frame(leaf, p.left(callee, caller));
        });
        CHECK_FALSE(p.prove(leaf));
        CHECK_FALSE(p.is_proved({main, new_caller, callee}));
        CHECK_FALSE(p.is_proved({main, new_caller}));
    });
}

TEST_CASE("proof: shared helpers under two callers prove neither's leaf for the other") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address top_1 = p.calling("top_1");
        const Address top_2 = p.calling("top_2");
        const Address helper = p.calling("helper");
        const Address leaf_1 = p.calling("leaf_1");
        const Address leaf_2 = p.calling("leaf_2");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address top = p.put(p.waiting(top_1, root));
        const Address middle = p.put(p.waiting(helper, top));
        const Address leaf = p.put(p.executing(leaf_1, middle));
        p.warm_up(leaf);
        p.between_copies([&] {
            p.builder.put_frame(top, p.waiting(top_2, root));
            p.builder.put_frame(leaf, p.executing(leaf_2, middle));
        });
        CHECK_FALSE(p.prove(leaf));
        CHECK_FALSE(p.is_proved({main, top_2, helper, leaf_1}));
        CHECK_FALSE(p.is_proved({main, top_1, helper, leaf_2}));
        CHECK_FALSE(p.is_proved({main, top_2, helper}));
    });
}

TEST_CASE("proof: recursion proves the depth that it has, and no other") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        const Address main = p.calling("main");
        const Address rec = p.calling("rec");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address one = p.put(p.waiting(rec, root));
        const Address two = p.put(p.waiting(rec, one));
        const Address three = p.put(p.executing(rec, two));
        p.warm_up(three);
        CHECK(p.prove(three));
        CHECK(p.is_proved({main, rec, rec, rec}));
        CHECK_FALSE(p.is_proved({main, rec, rec, rec, rec}));
    });
}

TEST_CASE("proof: frames that were left prove nothing, though both copies show them") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (p.shape.clears_popped_frames()) return;  // there they have no code
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address leaf = p.put(p.left(f, root));
        p.warm_up(leaf);
        CHECK_FALSE(p.prove(leaf));
        CHECK_FALSE(p.is_proved({main, f}));
    });
}

TEST_CASE("proof: a list of free frames is no stack (3.8 to 3.10)") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (p.shape.on_data_stack()) return;
        const Address f = p.calling("f");
        const Address g = p.calling("g");
        const Address last = p.put(p.left(f, kNullAddress));
        const Address first = p.put(p.left(g, last));
        const Address leaf = p.put(p.executing(g, first));
        p.warm_up(leaf);
        CHECK_FALSE(p.prove(leaf));
        CHECK_FALSE(p.is_proved({f}));
        CHECK_FALSE(p.is_proved({f, g}));
    });
}

TEST_CASE("proof: a frame that has not begun may still hold another's caller") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (!p.shape.on_data_stack()) return;
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        ProcessBuilder::FrameSpec fresh = p.waiting(f, root);
        fresh.index = known.layout.instruction_kind == InstructionKind::kPreviousInstruction ? -1 : 0;
        const Address leaf = p.put(fresh);
        p.warm_up(leaf);
        CHECK_FALSE(p.prove(leaf));
        CHECK(p.is_proved({main}));
        CHECK_FALSE(p.is_proved({main, f}));
    });
}

TEST_CASE("proof: below a generator's frame stands a loop over one, above a loop no plain call") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (!p.shape.on_data_stack() || known.layout.version.minor < 12) return;
        const Address main = p.calling("main");
        const Address loop = p.code("loop");
        p.put_opcode(loop, kCallUnit, p.numbers().loop);
        const Address f = p.calling("f");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        ProcessBuilder::FrameSpec looping = p.waiting(loop, root);
        looping.index = p.index(p.waiting_unit(1));
        const Address caller = p.put(looping);
        const Address rest = p.put(p.executing(f, caller));  // of a call that returned
        p.warm_up(rest);
        CHECK_FALSE(p.prove(rest));
        CHECK(p.is_proved({main, loop}));
        CHECK_FALSE(p.is_proved({main, loop, f}));

        const Address generator = p.builder.generator(p.executing(f, caller)).frame;
        p.warm_up(generator);
        CHECK(p.prove(generator));
        CHECK(p.is_proved({main, loop, f}));
    });
}

TEST_CASE("proof: a frame that does not stand where the data stack's next one must is not proved") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (!has(known.layout.code.frame_size)) return;
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address root = p.entered(p.waiting(main, kNullAddress));
        p.stack.top = p.stack.top + 16;
        const Address leaf = p.put(p.executing(f, root));
        p.warm_up(leaf);
        CHECK_FALSE(p.prove(leaf));
        CHECK(p.is_proved({main}));
        CHECK_FALSE(p.is_proved({main, f}));
    });
}

TEST_CASE("proof: an inline cache that names another function than the one called proves nothing") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (!has(known.layout.code.version)) return;
        const Address main = p.calling("main");
        const Address dispatch = p.calling("dispatch", 50, 71);  // its site was specialised for `first`
        const Address first = p.calling("first", 71);
        const Address second = p.calling("second", 72);
        REQUIRE(p.codes.load_code(first) != kNoCode);
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address caller = p.put(p.waiting(dispatch, root));
        const Address leaf = p.put(p.executing(second, caller));
        p.warm_up(leaf);
        CHECK(p.prove(leaf));
        // While it returns, the pointer is its caller's, which still waits.
        (void)p.prove(caller);
        CHECK(p.is_proved({main, dispatch, second}));
        CHECK_FALSE(p.is_proved({main, dispatch, first}));
    });
}

TEST_CASE("proof: a version that looks like another opcode costs no proof") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.code.version)) return;
        for (std::uint32_t low_byte = 0; low_byte < 256; ++low_byte) {
            Proving p(known.layout);
            const std::uint32_t version = 0x1200 + low_byte;
            const Address main = p.calling("main", 5, version);
            const Address f = p.calling("f", version);
            const Address root = p.entered(p.waiting(main, kNullAddress));
            const Address leaf = p.put(p.executing(f, root));
            p.warm_up(leaf);
            INFO("version " << version);
            REQUIRE(p.prove(leaf));
        }
    });
}

TEST_CASE("proof: the callee that the earlier copy held is its caller's, if it lived") {
    for_each_layout([](const KnownLayout& known) {
        Proving p(known.layout);
        if (!has(known.layout.code.frame_size)) return;
        const Address main = p.calling("main");
        const Address f = p.calling("f");
        const Address g = p.calling("g");
        const Address h = p.calling("h");
        REQUIRE(p.codes.load_code(f) != kNoCode);
        REQUIRE(p.codes.load_code(h) != kNoCode);
        p.stack_builder.note_copy();  // a name that was read after the copy would prove nothing
        const Address root = p.entered(p.waiting(main, kNullAddress));
        const Address leaf = p.put(p.executing(f, root));
        p.warm_up(leaf);
        for (int seen = 0; seen < 3; ++seen) {
            CHECK_FALSE(p.is_proved({main, f}));
            p.builder.put_frame(leaf, p.executing(f, root));
            p.between_copies([&] { p.builder.put_frame(leaf, p.executing(g, root)); });
            (void)p.prove(leaf);
        }
        CHECK(p.is_proved({main, f}));

        if (p.shape.clears_popped_frames()) return;
        for (int seen = 0; seen < 20; ++seen) {
            p.builder.put_frame(leaf, p.left(h, root));  // what is left of an earlier call
            p.between_copies([&] { p.builder.put_frame(leaf, p.executing(g, root)); });
            (void)p.prove(leaf);
        }
        CHECK_FALSE(p.is_proved({main, h}));
    });
}

// The copy was held up between the caller's frame and the one above it, and the program went once around meanwhile: A calls a,
// B calls b in the same places, and A waits at its call again when it is copied for the second time.
TEST_CASE("proof: another caller's callee is not proved by a round that passed within a copy") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.code.version)) return;
        for (const bool is_named : {false, true}) {
            INFO("the inline cache names what is called: " << is_named);
            Proving p(known.layout);
            const Address main = p.calling("main");
            const Address a = p.calling("A", 40, 61);
            const Address own = p.calling("a", 61);
            const Address other = p.calling("b", 62);
            const Address callee = is_named ? own : other;
            for (const Address code : {own, other}) REQUIRE(p.codes.load_code(code) != kNoCode);
            p.stack_builder.note_copy();
            const Address root = p.entered(p.waiting(main, kNullAddress));
            const Address caller = p.put(p.waiting(a, root));
            const Address leaf = p.put(p.executing(callee, caller));
            p.warm_up(leaf);
            p.between_copies([&] { p.builder.put_frame(leaf, p.executing(is_named ? other : own, caller)); });
            (void)p.prove(leaf);
            CHECK(p.is_proved({main, a}));
            CHECK(p.is_proved({main, a, callee}) == is_named);
        }
    });
}

TEST_CASE("proof: any read may fail, and nothing is proved by what was not read") {
    for_each_layout([](const KnownLayout& known) {
        for (std::size_t bad = 1; bad <= 6; ++bad) {
            Proving p(known.layout);
            const Address main = p.calling("main");
            const Address f = p.calling("f");
            const Address root = p.entered(p.waiting(main, kNullAddress));
            const Address leaf = p.put(p.executing(f, root));
            p.warm_up(leaf);
            p.memory.fail_at(bad);
            (void)p.prove(leaf);
            CHECK_FALSE(p.is_proved({f}));
            CHECK_FALSE(p.is_proved({f, main}));
        }
    });
}
