// SPDX-License-Identifier: Apache-2.0
//
// Lines of callers: each case is one way in which a caller goes on while it is copied.
#include "sample/call_sites.h"

#include "reading.h"

#include <functional>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr int kFirstCall = 10;
constexpr int kSecondCall = 20;
constexpr int kBetween = 15;

// root calls `caller`, which calls `callee` at one of two instructions.
struct Calling : Reading {
    explicit Calling(const Layout& which) : Reading(which), caller_code(code("caller")), callee_code(code("callee")), other_code(code("other")), sites(shape) {
        base = entered(waiting(f, kNullAddress, kFirstCall));
        caller = builder.any_frame(stack, waiting(caller_code, base, kFirstCall));
        callee = builder.any_frame(stack, executing(callee_code, caller, 5));
        for (int i = 0; i < 3; ++i) (void)sample(callee, ThreadReader::Copies::kAround);
    }

    [[nodiscard]] ProcessBuilder::FrameSpec at(Address of, Address back, int unit, bool waits) const {
        ProcessBuilder::FrameSpec spec;
        spec.code = of;
        spec.back = back;
        spec.index = layout().instruction_kind == InstructionKind::kByteIndex ? unit * 2 : unit;
        const bool is_pointer = has(layout().frame.stackpointer);
        spec.stack = is_pointer ? (waits ? 0x7f1000000000 : 0) : (waits ? 1 : -1);
        return spec;
    }
    [[nodiscard]] ProcessBuilder::FrameSpec waiting(Address of, Address back, int unit) const { return at(of, back, unit, true); }
    [[nodiscard]] ProcessBuilder::FrameSpec executing(Address of, Address back, int unit) const { return at(of, back, unit, false); }

    // Once, between the two copies.
    void between_copies(std::function<void()> change) {
        memory.before_range = [this, change = std::move(change), done = false](FakeMemory&, const ReadRange& range) mutable {
            if (done || range.from != thread) return;
            done = true;
            change();
        };
    }
    // Samples, and the caller's instruction as it is to be shown.
    std::uint64_t shown() {
        REQUIRE(sample(callee, ThreadReader::Copies::kAround) == Status::kOk);
        StackBuilder::Chain chain;  // nothing is known as unchanged
        REQUIRE(stack_builder.build(reader->walk(), chain) != StackBuilder::Built::kTorn);
        REQUIRE(reader->walk().frames.size() == 3);
        const Walk* settled = sites.settle(*reader, reader->walk(), chain);
        const Walk& walk = settled == nullptr ? reader->walk() : *settled;
        CHECK(walk.frames[0] == reader->walk().frames[0]);
        CHECK(walk.frames[2] == reader->walk().frames[2]);
        return walk.frames[1].instruction;
    }
    [[nodiscard]] std::uint64_t unit(int number) const { return instruction(caller_code, number); }
    // The call at this instruction is seen in both copies, as often as it takes to believe it.
    void learn(int number) {
        builder.put_frame(caller, waiting(caller_code, base, number));
        builder.put_frame(callee, executing(callee_code, caller, 5));
        for (int i = 0; i < 3; ++i) CHECK(shown() == unit(number));
    }

    Address caller_code, callee_code, other_code;
    CallSites sites;
    Address base, caller, callee;
};

}  // namespace

TEST_CASE("call sites: a caller that stands still keeps its line") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        CHECK(c.shown() == c.unit(kFirstCall));
    });
}

TEST_CASE("call sites: a caller that has gone on is shown where it made the call") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        if (!c.shape.on_data_stack()) c.learn(kFirstCall);  // up to 3.10 its state does not tell
        c.builder.put_frame(c.caller, c.waiting(c.caller_code, c.base, kFirstCall));
        c.between_copies([&] { c.builder.put_frame(c.caller, c.executing(c.caller_code, c.base, kBetween)); });
        CHECK(c.shown() == c.unit(kFirstCall));
    });
}

TEST_CASE("call sites: up to 3.10 one copy of the caller tells nothing") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        if (c.shape.on_data_stack()) return;
        c.between_copies([&] { c.builder.put_frame(c.caller, c.waiting(c.caller_code, c.base, kSecondCall)); });
        CHECK(c.shown() == kUnknownInstruction);
    });
}

TEST_CASE("call sites: a caller of which neither copy tells the call has no line") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        if (!c.shape.on_data_stack()) return;  // a state that tells
        c.builder.put_frame(c.caller, c.executing(c.caller_code, c.base, kBetween));
        CHECK(c.shown() == kUnknownInstruction);
        // The stack that is made of it holds the caller, without a line.
        Walk walk = c.reader->walk();
        walk.frames[1].instruction = kUnknownInstruction;
        StackBuilder::Chain chain;
        REQUIRE(c.stack_builder.build(walk, chain) == StackBuilder::Built::kChanged);
        const StackTable::Node& node = c.stacks.node(chain.steps[1].stack);
        CHECK(c.stacks.string(c.stacks.frame(node.frame).name) == "caller");
        CHECK(c.stacks.frame(node.frame).line == 0);
    });
}

TEST_CASE("call sites: the only known call is taken where neither copy tells it") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        if (!c.shape.on_data_stack()) return;
        c.learn(kFirstCall);
        c.builder.put_frame(c.caller, c.executing(c.caller_code, c.base, kBetween));
        CHECK(c.shown() == c.unit(kFirstCall));
        c.learn(kSecondCall);
        c.builder.put_frame(c.caller, c.executing(c.caller_code, c.base, kBetween));
        CHECK(c.shown() == kUnknownInstruction);
        c.sites.forget();
        CHECK(c.shown() == kUnknownInstruction);
    });
}

TEST_CASE("call sites: a call that is seen in one copy alone is not believed against a known one") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        c.learn(kFirstCall);
        // The caller waits for another callee when it is copied, which is gone when its callee is copied.
        c.builder.put_frame(c.caller, c.waiting(c.caller_code, c.base, kSecondCall));
        c.builder.put_frame(c.callee, c.executing(c.other_code, c.caller, 5));
        c.between_copies([&] { c.builder.put_frame(c.callee, c.executing(c.callee_code, c.caller, 5)); });
        CHECK(c.shown() == kUnknownInstruction);
    });
}

TEST_CASE("call sites: a call that is seen often is believed, however short it is") {
    for_each_layout([](const KnownLayout& known) {
        Calling c(known.layout);
        if (!c.shape.on_data_stack()) return;
        c.learn(kFirstCall);
        std::uint64_t last = 0;
        for (int i = 0; i < 8; ++i) {
            c.builder.put_frame(c.caller, c.waiting(c.caller_code, c.base, kSecondCall));
            c.builder.put_frame(c.callee, c.executing(c.other_code, c.caller, 5));
            c.between_copies([&] { c.builder.put_frame(c.callee, c.executing(c.callee_code, c.caller, 5)); });
            last = c.shown();
        }
        CHECK(last == c.unit(kSecondCall));
    });
}
