// SPDX-License-Identifier: Apache-2.0
//
// From walked frames to stacks: what two samples share, what is torn, where a deep stack is cut.
#include "fixture.h"

using namespace pyprof;
using namespace pyprof::test;
using Built = StackBuilder::Built;

namespace {

constexpr Address kThread{0x1000};

}  // namespace

TEST_CASE("stack builder: a stack by its names, root first, with the leaf's line") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address f = fixture.code("f");
        StackBuilder::Chain chain;
        CHECK(fixture.stack_builder.build(fixture.walk({main, f}), chain) == Built::kChanged);
        CHECK_FALSE(chain.read_at.empty());
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "main;f");
        CHECK(fixture.stack_builder.build(fixture.walk({main, f}), chain) == Built::kSame);
        CHECK(chain.read_at.empty());
    });
}

TEST_CASE("stack builder: equal stacks are one, whichever thread they are of") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address f = fixture.code("f");
        StackBuilder::Chain a;
        StackBuilder::Chain b;
        (void)fixture.stack_builder.build(fixture.walk({main, f}), a);
        (void)fixture.stack_builder.build(fixture.walk({main, f}), b);
        CHECK(fixture.stack_builder.stack_of(a) == fixture.stack_builder.stack_of(b));
        CHECK(fixture.stack_builder.path_of(a) == fixture.stack_builder.path_of(b));
    });
}

TEST_CASE("stack builder: only what differs from the last stack is looked up") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address f = fixture.code("f");
        const Address g = fixture.code("g");
        StackBuilder::Chain chain;
        (void)fixture.stack_builder.build(fixture.walk({main, f, f}), chain);
        const StackId caller = chain.steps[1].stack;
        CHECK(fixture.stack_builder.build(fixture.walk({main, f, g}), chain) == Built::kChanged);
        CHECK(chain.unchanged == 2);
        CHECK(chain.steps[1].stack == caller);
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "main;f;g");
        CHECK(fixture.stack_builder.build(fixture.walk({main, f}), chain) == Built::kChanged);
        CHECK(fixture.stack_builder.stack_of(chain) == caller);
        CHECK(fixture.stack_builder.build(fixture.walk({g}), chain) == Built::kChanged);
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "g");
        CHECK(fixture.stack_builder.build(Walk{}, chain) == Built::kChanged);
        CHECK(fixture.stack_builder.stack_of(chain) == kRootStack);
    });
}

TEST_CASE("stack builder: another line is another stack of the same path") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        // A line table that says a line of its own for the unit 8.
        ObjectBuilder::CodeSpec spec;
        spec.name = U"f";
        spec.first_line = 10;
        spec.bytecode = std::vector<std::byte>(80);
        const bool is_location = known.layout.line_table_kind == LineTableKind::kLocations;
        const auto bytes = is_location ? std::vector<unsigned>{0x80 | 13 << 3 | 7, 0, 0x80 | 13 << 3 | 7, 2}  // 8 units, then +1
                                       : std::vector<unsigned>{16, known.layout.line_table_kind == LineTableKind::kLnotab ? 1U : 0U, 64, 1};
        for (const unsigned byte : bytes) spec.line_table.push_back(static_cast<std::byte>(byte));
        const Address f = fixture.builder.code(spec);
        StackBuilder::Chain chain;
        (void)fixture.stack_builder.build(fixture.walk({f}, 2), chain);
        const StackId early = fixture.stack_builder.stack_of(chain);
        const PathId path = fixture.stack_builder.path_of(chain);
        CHECK(fixture.stack_builder.build(fixture.walk({f}, 9), chain) == Built::kChanged);
        CHECK(fixture.stack_builder.stack_of(chain) != early);
        CHECK(fixture.stack_builder.path_of(chain) == path);
        CHECK(fixture.stacks.frame(fixture.stacks.node(early).frame).line == 10);
        CHECK(fixture.stacks.frame(fixture.stacks.node(fixture.stack_builder.stack_of(chain)).frame).line == 11);
    });
}

TEST_CASE("stack builder: a frame whose instruction lies outside its code is torn; its callers stay") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address f = fixture.code("f");
        Walk walk = fixture.walk({main, f, f});
        walk.frames[0].instruction = fixture.instruction(f, 4'000);
        StackBuilder::Chain chain;
        CHECK(fixture.stack_builder.build(walk, chain) == Built::kTorn);
        CHECK(chain.steps.size() == 2);
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "main;f");
        CHECK(fixture.stack_builder.build(walk, chain) == Built::kTorn);  // and not "the same" the next time
        CHECK(fixture.stack_builder.build(fixture.walk({main, f, f}), chain) == Built::kChanged);
        CHECK(chain.steps.size() == 3);
    });
}

TEST_CASE("stack builder: a frame of no code is torn") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        Walk walk = fixture.walk({main, main});
        walk.frames[0].code = Address{0x600000000000};
        StackBuilder::Chain chain;
        CHECK(fixture.stack_builder.build(walk, chain) == Built::kTorn);
        walk.frames[0].code = kNullAddress;
        CHECK(fixture.stack_builder.build(walk, chain) == Built::kTorn);
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "main");
    });
}

TEST_CASE("stack builder: frames of the interpreter itself are not shown") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.code.first_traceable)) return;
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address own = fixture.code("<init>");
        fixture.builder.put_field(own, known.layout.code.first_traceable, 40, 4);
        const Address init = fixture.code("__init__");
        StackBuilder::Chain chain;
        CHECK(fixture.stack_builder.build(fixture.walk({main, own, init}), chain) == Built::kChanged);
        CHECK(fixture.text(fixture.stack_builder.stack_of(chain)) == "main;__init__");
    });
}

TEST_CASE("stack builder: the middle of a stack that is too deep is cut under a marker") {
    Fixture fixture(known_layouts(PYPROF_TEST_DIR).back().layout);
    const Address main = fixture.code("main");
    const Address rec = fixture.code("rec");
    const Address leaf = fixture.code("leaf");
    const auto deep = [&](std::size_t depth) {
        std::vector<Address> frames(depth, rec);
        frames.front() = main;
        frames.back() = leaf;
        return fixture.walk(frames);
    };
    const auto shown = [&](const StackBuilder::Chain& chain) {
        std::size_t frames = 0;
        std::size_t markers = 0;
        std::size_t marker_at = 0;  // from the leaf
        for (StackId stack = fixture.stack_builder.stack_of(chain); stack != kRootStack; stack = fixture.stacks.node(stack).parent) {
            const Frame& frame = fixture.stacks.frame(fixture.stacks.node(stack).frame);
            if (frame.kind == FrameKind::kMarker) {
                CHECK(fixture.stacks.string(frame.name) == "[truncated]");
                ++markers;
                marker_at = frames;
            } else {
                ++frames;
            }
        }
        return std::vector<std::size_t>{frames, markers, marker_at};
    };
    StackBuilder::Chain chain;
    CHECK(fixture.stack_builder.build(deep(kMaxFrames), chain) == Built::kChanged);
    CHECK(shown(chain) == std::vector<std::size_t>{kMaxFrames, 0, 0});
    CHECK(fixture.stack_builder.build(deep(kMaxFrames + 1), chain) == Built::kChanged);
    CHECK(shown(chain) == std::vector<std::size_t>{kMaxFrames, 1, kMaxFrames / 2});
    CHECK(fixture.stack_builder.build(deep(kMaxFrames + 1), chain) == Built::kSame);
    CHECK(fixture.stack_builder.build(deep(kMaxFrames + 777), chain) == Built::kChanged);
    CHECK(shown(chain) == std::vector<std::size_t>{kMaxFrames, 1, kMaxFrames / 2});
    CHECK(fixture.stack_builder.build(deep(100), chain) == Built::kChanged);
    CHECK(shown(chain) == std::vector<std::size_t>{100, 0, 0});
    CHECK(fixture.stack_builder.build(deep(kMaxFrames + 777), chain) == Built::kChanged);
    CHECK(shown(chain) == std::vector<std::size_t>{kMaxFrames, 1, kMaxFrames / 2});
}

TEST_CASE("stack builder: what is unproved is kept by its leaf, as far as that is known") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address f = fixture.code("f");
        StackBuilder::Chain chain;
        (void)fixture.stack_builder.build(fixture.walk({f}), chain);
        RawFrame leaf = fixture.frame(f, 0x9000);
        CHECK(fixture.text(fixture.stack_builder.unproved(&leaf)) == "[unproved];f");
        leaf.instruction = fixture.instruction(f, 4'000);
        CHECK(fixture.text(fixture.stack_builder.unproved(&leaf)) == "[unproved]");
        leaf.code = Address{0x600000000000};
        CHECK(fixture.text(fixture.stack_builder.unproved(&leaf)) == "[unproved]");
        CHECK(fixture.text(fixture.stack_builder.unproved(nullptr)) == "[unproved]");
    });
}

TEST_CASE("stack builder: a code has a sole caller until a second path is proved") {
    Fixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    const Address other = fixture.code("other");
    const Address f = fixture.code("f");
    StackBuilder::Chain chain;
    (void)fixture.stack_builder.build(fixture.walk({main, f}), chain);
    const PathId path = fixture.stack_builder.path_of(chain);
    CHECK_FALSE(fixture.stack_builder.is_sole(path, 0));
    fixture.stack_builder.prove(path);
    fixture.stack_builder.note_accepted(chain, kThread);
    CHECK(fixture.stack_builder.is_sole(path, 1));
    CHECK_FALSE(fixture.stack_builder.is_sole(path, 2));
    const RawFrame leaf = fixture.frame(f, 0x9000);
    const auto step = fixture.stack_builder.sole_stack(leaf, 1, kThread);
    REQUIRE(step);
    CHECK(fixture.text(step->stack) == "main;f");

    StackBuilder::Chain second;
    (void)fixture.stack_builder.build(fixture.walk({other, f}), second);
    fixture.stack_builder.prove(fixture.stack_builder.path_of(second));
    CHECK_FALSE(fixture.stack_builder.is_sole(path, 1));
    CHECK_FALSE(fixture.stack_builder.sole_stack(leaf, 1, kThread));
}

TEST_CASE("stack builder: one long call is one sighting, however many samples meet it") {
    Fixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    const Address f = fixture.code("f");
    StackBuilder::Chain chain;
    for (const int index : {2, 4, 6, 8}) {
        Walk walk = fixture.walk({main, f});
        walk.frames.front().instruction = fixture.instruction(f, index);
        (void)fixture.stack_builder.build(walk, chain);
        fixture.stack_builder.prove(fixture.stack_builder.path_of(chain));
        fixture.stack_builder.note_accepted(chain, kThread);
    }
    const PathId path = fixture.stack_builder.path_of(chain);
    CHECK(fixture.stack_builder.is_sole(path, 1));
    CHECK_FALSE(fixture.stack_builder.is_sole(path, 2));
    // A caller whose line is not known has perhaps not gone on, and what it waits for is still the same call.
    Walk unknown = fixture.walk({main, f});
    unknown.frames.back().instruction = kUnknownInstruction;
    for (const Walk& walk : {unknown, fixture.walk({main, f}), unknown}) {
        (void)fixture.stack_builder.build(walk, chain);
        fixture.stack_builder.note_accepted(chain, kThread);
    }
    CHECK_FALSE(fixture.stack_builder.is_sole(path, 2));
    // Two builds for one sample: what the first one found anew is new for both.
    StackBuilder::Chain other;
    (void)fixture.stack_builder.build(fixture.walk({main, f}), other);
    const StackBuilder::Chain::Kept kept = other.kept();
    CHECK(kept.same_calls == 0);
    (void)fixture.stack_builder.build(unknown, other);
    CHECK(other.same_calls == 2);
    other.keep_at_most(kept);
    CHECK(other.same_calls == 0);
    (void)fixture.stack_builder.build(fixture.walk({main, f}), chain);
    // Another call, from another place in main.
    Walk walk = fixture.walk({main, f});
    walk.frames.back().instruction = fixture.instruction(main, 2);
    (void)fixture.stack_builder.build(walk, chain);
    fixture.stack_builder.note_accepted(chain, kThread);
    CHECK(fixture.stack_builder.is_sole(path, 2));
}

// A class is called through a frame that is shown nowhere (3.12 on).
TEST_CASE("stack builder: a hidden frame is nobody's caller") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        if (!has(known.layout.code.first_traceable)) return;
        const Address hidden = fixture.code("<init>");
        fixture.builder.put_field(hidden, known.layout.code.first_traceable, 40, 4);
        const Address init = fixture.code("__init__");
        StackBuilder::Chain chain;
        (void)fixture.stack_builder.build(fixture.walk({main, hidden, init}), chain);
        REQUIRE(fixture.text(fixture.stack_builder.stack_of(chain)) == "main;__init__");
        fixture.stack_builder.prove(fixture.stack_builder.path_of(chain));
        fixture.stack_builder.note_accepted(chain, kThread);
        const auto of_main = fixture.stack_builder.sole_stack(fixture.frame(main, 0x9000), 1, kThread);
        REQUIRE(of_main);
        CHECK(fixture.text(of_main->stack) == "main");
        const auto of_init = fixture.stack_builder.sole_stack(fixture.frame(init, 0x9000), 1, kThread);
        REQUIRE(of_init);
        CHECK(fixture.text(of_init->stack) == "main;__init__");
    });
}

TEST_CASE("stack builder: leaves that stand alone follow the one known path to them, until there are two") {
    Fixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    const Address main = fixture.code("main");
    const Address other = fixture.code("other");
    const Address f = fixture.code("f");
    const RawFrame leaf = fixture.frame(f, 0x9000);
    CHECK_FALSE(fixture.stack_builder.leaf_alone(leaf, kThread));  // its code is not known yet
    StackBuilder::Chain chain;
    (void)fixture.stack_builder.build(fixture.walk({main, f}), chain);
    const auto alone = fixture.stack_builder.leaf_alone(leaf, kThread);
    REQUIRE(alone);
    CHECK(fixture.text(alone->stack) == "[unproved];f");
    CHECK_FALSE(fixture.stacks.is_proved(alone->path));
    CHECK(fixture.stack_builder.identity_of(alone->path) == fixture.stack_builder.identity_of(fixture.stack_builder.path_of(chain)));

    fixture.stack_builder.prove(fixture.stack_builder.path_of(chain));
    fixture.stack_builder.infer_leaves(1);
    CHECK_FALSE(fixture.stacks.inferred_callers(alone->path));  // proved, but not seen often enough
    fixture.stack_builder.note_accepted(chain, kThread);
    fixture.stack_builder.infer_leaves(1);
    REQUIRE(fixture.stacks.inferred_callers(alone->path));
    CHECK(fixture.text(*fixture.stacks.inferred_callers(alone->path)) == "main");

    StackBuilder::Chain second;
    (void)fixture.stack_builder.build(fixture.walk({other, f}), second);
    fixture.stack_builder.prove(fixture.stack_builder.path_of(second));
    fixture.stack_builder.infer_leaves(1);
    CHECK_FALSE(fixture.stacks.inferred_callers(alone->path));
}

TEST_CASE("stack builder: what one thread alone was seen to do says nothing of another's callers") {
    Fixture fixture(known_layouts(PYPROF_TEST_DIR).front().layout);
    constexpr Address kOther{0x2000};
    constexpr Address kThird{0x3000};
    const Address main = fixture.code("main");
    const Address f = fixture.code("f");
    const RawFrame leaf = fixture.frame(f, 0x9000);
    StackBuilder::Chain chain;
    (void)fixture.stack_builder.build(fixture.walk({main, f}), chain);
    fixture.stack_builder.prove(fixture.stack_builder.path_of(chain));
    fixture.stack_builder.note_accepted(chain, kThread);
    const auto own = fixture.stack_builder.leaf_alone(leaf, kThread);
    const auto others = fixture.stack_builder.leaf_alone(leaf, kOther);
    REQUIRE((own && others));
    fixture.stack_builder.infer_leaves(1);
    CHECK(fixture.stack_builder.sole_stack(leaf, 1, kThread));
    CHECK_FALSE(fixture.stack_builder.sole_stack(leaf, 1, kOther));
    CHECK(fixture.stacks.inferred_callers(own->path));
    CHECK_FALSE(fixture.stacks.inferred_callers(others->path));
    // A path that several threads take is the program's.
    StackBuilder::Chain same;
    (void)fixture.stack_builder.build(fixture.walk({main, f}), same);
    fixture.stack_builder.note_accepted(same, kThird);
    fixture.stack_builder.infer_leaves(1);
    CHECK(fixture.stack_builder.sole_stack(leaf, 1, kOther));
    CHECK(fixture.stacks.inferred_callers(others->path));
}

TEST_CASE("stack builder: code that was read after the frames were copied is told from older code") {
    for_each_layout([](const KnownLayout& known) {
        Fixture fixture(known.layout);
        const Address main = fixture.code("main");
        const Address f = fixture.code("f");
        fixture.stack_builder.note_copy();
        StackBuilder::Chain one;
        StackBuilder::Chain of_another_thread;
        (void)fixture.stack_builder.build(fixture.walk({main, f}), one);
        CHECK(one.read_at == std::vector<std::uint32_t>{0, 1});
        (void)fixture.stack_builder.build(fixture.walk({f}), of_another_thread);  // copied before f was read, too
        CHECK(of_another_thread.read_at == std::vector<std::uint32_t>{0});
        fixture.stack_builder.note_copy();
        const Address g = fixture.code("g");
        (void)fixture.stack_builder.build(fixture.walk({main, f, g}), one);
        CHECK(one.read_at == std::vector<std::uint32_t>{2});
        (void)fixture.stack_builder.build(fixture.walk({main, f}), one);
        CHECK(one.read_at.empty());
        CHECK(one.read_at.empty());
    });
}
