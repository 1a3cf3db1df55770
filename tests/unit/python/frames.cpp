// SPDX-License-Identifier: Apache-2.0
//
// The walk from a leaf to the root over frames of every layout: how it ends, what it skips, what it says
// of each frame.
#include "python/frames.h"

#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// Frames are read one by one, as the walk asks for them.
class Stack {
public:
    explicit Stack(const Layout& layout) : builder(memory, layout), shape(layout), code(builder.code({})) {
        if (shape.on_data_stack()) data_stack = builder.data_stack();
    }

    // A thread's outermost frame, entered from C as the version shows it.
    Address root() { return entered_from_c(kNullAddress); }
    Address entered_from_c(Address caller) {
        ProcessBuilder::FrameSpec spec = plain();
        spec.back = has_shims() ? builder.shim(caller) : caller;
        spec.is_entry = true;
        return builder.any_frame(data_stack, spec);
    }
    Address called(Address caller) {
        ProcessBuilder::FrameSpec spec = plain();
        spec.back = caller;
        return builder.any_frame(data_stack, spec);
    }
    ProcessBuilder::FrameSpec plain() const {
        ProcessBuilder::FrameSpec spec;
        spec.code = code;
        spec.index = 4;
        return spec;
    }
    [[nodiscard]] bool has_shims() const {
        return has(builder.layout().frame.owner_cstack) || has(builder.layout().frame.owner_interpreter);
    }

    const Walk& walk(Address leaf, const WalkLimits& limits = {}) {
        walk_frames(shape, leaf, limits, [this](Address address) -> const std::byte* {
            copy_.resize(shape.bytes());
            return read_bytes(memory, address + shape.begin(), copy_) ? copy_.data() : nullptr;
        }, walk_);
        return walk_;
    }

    FakeMemory memory;
    ProcessBuilder builder;
    FrameShape shape;
    Address code;
    ProcessBuilder::DataStack data_stack;

private:
    std::vector<std::byte> copy_;
    Walk walk_;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Stack stack(known.layout);
        test(stack);
    }
}

std::vector<Address> addresses(const Walk& walk) {
    std::vector<Address> all;
    for (const RawFrame& frame : walk.frames) all.push_back(frame.address);
    return all;
}

}  // namespace

TEST_CASE("frames: a walk lists all frames, leaf first, and ends at the root") {
    for_each_layout([](Stack& stack) {
        const Address root = stack.root();
        const Address middle = stack.called(root);
        const Address leaf = stack.called(middle);
        const Walk& walk = stack.walk(leaf);
        CHECK(walk.end == WalkEnd::kRoot);
        CHECK(addresses(walk) == std::vector{leaf, middle, root});
        for (const RawFrame& frame : walk.frames) CHECK(frame.code == stack.code);
    });
}

TEST_CASE("frames: a null leaf is a walk without frames") {
    for_each_layout([](Stack& stack) {
        const Walk& walk = stack.walk(kNullAddress);
        CHECK(walk.end == WalkEnd::kRoot);
        CHECK(walk.frames.empty());
        CHECK(walk.steps == 0);
    });
}

TEST_CASE("frames: the base frame ends a walk like the root") {
    for_each_layout([](Stack& stack) {
        if (!has(stack.builder.layout().thread.base_frame)) return;
        const Address base = stack.builder.shim(kNullAddress);
        const Address root = stack.entered_from_c(base);
        const Address leaf = stack.called(root);
        WalkLimits limits;
        limits.base_frame = base;
        CHECK(stack.walk(leaf, limits).end == WalkEnd::kRoot);
        CHECK(addresses(stack.walk(leaf, limits)) == std::vector{leaf, root});
        CHECK(stack.walk(base, limits).frames.empty());
    });
}

TEST_CASE("frames: a cycle ends the walk after a bounded number of steps") {
    for_each_layout([](Stack& stack) {
        const Address first = stack.root();
        const Address second = stack.called(first);
        const Address third = stack.called(second);
        stack.builder.put_field(first, stack.builder.layout().frame.back, raw(third));
        const Walk& walk = stack.walk(third);
        CHECK(walk.end == WalkEnd::kEndless);
        CHECK(walk.steps <= kMaxSteps + 1);
        CHECK(walk.frames.size() <= kMaxSteps);
    });
}

TEST_CASE("frames: a frame that is its own caller is none") {
    for_each_layout([](Stack& stack) {
        const Address frame = stack.root();
        stack.builder.put_field(frame, stack.builder.layout().frame.back, raw(frame));
        CHECK(stack.walk(frame).end == WalkEnd::kInvalid);
    });
}

TEST_CASE("frames: what can't be read ends the walk and keeps what was above it") {
    for_each_layout([](Stack& stack) {
        const Address leaf = stack.called(Address{0x600000000000});
        const Walk& walk = stack.walk(leaf);
        CHECK(walk.end == WalkEnd::kUnreadable);
        CHECK(addresses(walk) == std::vector{leaf});
    });
}

TEST_CASE("frames: an owner or a code pointer that can't be one ends the walk") {
    for_each_layout([](Stack& stack) {
        const Layout::Frame& fields = stack.builder.layout().frame;
        const Address root = stack.root();
        const Address leaf = stack.called(root);
        for (const std::uint64_t code : {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{0xffff800000001000}}) {
            stack.builder.put_field(root, fields.code, code);
            CHECK(stack.walk(leaf).end == WalkEnd::kInvalid);
            CHECK(addresses(stack.walk(leaf)) == std::vector{leaf});
        }
        stack.builder.put_field(root, fields.code, raw(stack.code));
        if (!has(fields.owner)) return;
        for (const int owner : {fields.owner_last + 1, 127, -1}) {
            stack.builder.put_field(root, fields.owner, static_cast<std::uint64_t>(owner), 1);
            CHECK(stack.walk(leaf).end == WalkEnd::kInvalid);
        }
    });
}

TEST_CASE("frames: an unaligned code pointer is none where pointers carry no tags") {
    for_each_layout([](Stack& stack) {
        const Address leaf = stack.root();
        stack.builder.put_field(leaf, stack.builder.layout().frame.code, raw(stack.code) + 4);
        CHECK(stack.walk(leaf).end == WalkEnd::kInvalid);
    });
}

TEST_CASE("frames: the tags of an executable are no part of its address") {
    for_each_layout([](Stack& stack) {
        if (stack.builder.layout().pointer_mask == ~std::uint64_t{0}) return;
        for (const unsigned tag : {1U, 2U, 3U}) {
            ProcessBuilder::FrameSpec spec = stack.plain();
            spec.back = stack.builder.shim(kNullAddress);
            spec.tag = tag;
            const Address frame = stack.builder.push_frame(stack.data_stack, spec);
            REQUIRE(stack.walk(frame).frames.size() == 1);
            CHECK(stack.walk(frame).frames[0].code == stack.code);
        }
    });
}

TEST_CASE("frames: entry frames are skipped, and say that C code stands there") {
    for_each_layout([](Stack& stack) {
        const Address root = stack.root();
        const Address caller = stack.called(root);
        const Address by_c = stack.entered_from_c(caller);
        const Address leaf = stack.called(by_c);
        const Walk& walk = stack.walk(leaf);
        REQUIRE(addresses(walk) == std::vector{leaf, by_c, caller, root});
        const bool always = !stack.shape.on_data_stack();  // up to 3.10 each frame has an eval loop of its own
        CHECK(walk.frames[0].through_c == always);
        CHECK(walk.frames[1].through_c);
        CHECK(walk.frames[2].through_c == always);
        CHECK(walk.frames[3].through_c);
        CHECK(walk.off_stack.size() == (stack.has_shims() ? 2 : 0));
    });
}

TEST_CASE("frames: a generator that yielded ends its chain, but not at the root") {
    for_each_layout([](Stack& stack) {
        if (!has(stack.builder.layout().frame.owner_generator)) return;
        ProcessBuilder::FrameSpec spec = stack.plain();
        const auto generator = stack.builder.generator(spec);
        const Address leaf = stack.called(generator.frame);
        const Walk& walk = stack.walk(leaf);
        CHECK(walk.end == WalkEnd::kGenerator);
        REQUIRE(walk.frames.size() == 2);
        CHECK(walk.frames[1].of_generator);
        CHECK_FALSE(walk.frames[0].of_generator);
        CHECK(walk.off_stack == std::vector{generator.frame});
    });
}

TEST_CASE("frames: a generator that runs is a frame like others") {
    for_each_layout([](Stack& stack) {
        const Address root = stack.root();
        ProcessBuilder::FrameSpec spec = stack.plain();
        spec.back = root;
        const auto generator = stack.builder.generator(spec);
        const Address leaf = stack.called(generator.frame);
        const Walk& walk = stack.walk(leaf);
        CHECK(walk.end == WalkEnd::kRoot);
        CHECK(addresses(walk) == std::vector{leaf, generator.frame, root});
    });
}

TEST_CASE("frames: one without a caller that no C code has entered is not the root") {
    for_each_layout([](Stack& stack) {
        if (!stack.shape.on_data_stack()) return;  // there nothing tells
        const Address popped = stack.called(kNullAddress);
        const Address leaf = stack.called(popped);
        CHECK(stack.walk(popped).end == WalkEnd::kInvalid);
        CHECK(stack.walk(leaf).end == WalkEnd::kInvalid);
    });
}

TEST_CASE("frames: the instruction is taken as the version keeps it") {
    for_each_layout([](Stack& stack) {
        const Layout& layout = stack.builder.layout();
        ProcessBuilder::FrameSpec spec = stack.plain();
        for (const int index : {-1, 0, 40}) {
            spec.index = index;
            spec.is_entry = true;
            const Address frame = stack.builder.heap_frame(spec);
            const RawFrame& read = stack.walk(frame).frames.at(0);
            const bool is_pointer = layout.instruction_kind == InstructionKind::kPreviousInstruction ||
                                    layout.instruction_kind == InstructionKind::kInstructionPointer;
            const std::uint64_t start = raw(stack.code) + static_cast<std::uint64_t>(std::max(layout.code.bytecode, 0));
            const auto signed_index = static_cast<std::uint64_t>(static_cast<std::int64_t>(index));
            CHECK(read.instruction == (is_pointer ? start + 2 * signed_index : signed_index));
        }
    });
}

TEST_CASE("frames: a frame's own state tells who waits for a callee") {
    for_each_layout([](Stack& stack) {
        const auto is_suspended = [&](const ProcessBuilder::FrameSpec& spec) {
            return stack.shape.is_suspended(stack.walk(stack.builder.heap_frame(spec)).frames.at(0));
        };
        ProcessBuilder::FrameSpec spec = stack.plain();
        if (!stack.shape.on_data_stack()) {  // every caller executes
            spec.is_executing = true;
            CHECK(is_suspended(spec));
            spec.is_executing = false;
            CHECK_FALSE(is_suspended(spec));
            return;
        }
        const bool has_pointer = has(stack.builder.layout().frame.stackpointer);
        CHECK(stack.shape.clears_popped_frames() == has_pointer);
        spec.stack = has_pointer ? 0 : -1;
        CHECK_FALSE(is_suspended(spec));
        spec.stack = has_pointer ? 0x7f1000000000 : 3;
        CHECK(is_suspended(spec));
    });
}

TEST_CASE("frames: a stack deeper than is kept is walked to its root") {
    const KnownLayout known = known_layouts(PYPROF_TEST_DIR).back();
    Stack stack(known.layout);
    stack.data_stack = stack.builder.data_stack((kMaxFrames + 100) * (known.layout.frame.size + 32) + 64);
    Address leaf = stack.root();
    for (std::size_t i = 0; i < kMaxFrames + 10; ++i) leaf = stack.called(leaf);
    const Walk& walk = stack.walk(leaf);
    CHECK(walk.end == WalkEnd::kRoot);
    CHECK(walk.frames.size() == kMaxFrames + 11);
}
