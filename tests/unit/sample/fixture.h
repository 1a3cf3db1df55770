// SPDX-License-Identifier: Apache-2.0
//
// What most tests of this layer begin with: a fake memory with code objects and frames of one layout, and
// the tables that stacks are built in.
#pragma once

#include "python/code_cache.h"
#include "python/frames.h"
#include "sample/stack_builder.h"
#include "sample/thread_reader.h"
#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace pyprof::test {

struct Fixture {
    explicit Fixture(const Layout& which)
        : builder(memory, which),
          shape(builder.layout()),
          codes(memory, builder.layout(), stacks),
          stack_builder(codes, stacks, true) {}

    [[nodiscard]] const Layout& layout() const { return builder.layout(); }

    // A code object called so, of 40 units; its lines are the units.
    Address code(const std::string& name, std::uint32_t version = 0) {
        ObjectBuilder::CodeSpec spec;
        spec.name = std::u32string(name.begin(), name.end());
        spec.version = version;
        spec.bytecode = std::vector<std::byte>(80);
        return builder.code(spec);
    }
    // The value of a frame's instruction field at a code unit.
    [[nodiscard]] std::uint64_t instruction(Address code_address, int unit) const {
        const auto index = static_cast<std::uint64_t>(static_cast<std::int64_t>(unit));
        switch (layout().instruction_kind) {
            case InstructionKind::kByteIndex:
                return index * 2;
            case InstructionKind::kCodeUnitIndex:
                return index;
            default:
                return raw(code_address) + static_cast<std::uint64_t>(layout().code.bytecode) + index * 2;
        }
    }
    RawFrame frame(Address code_address, std::uint64_t at, int unit = 4) const {
        RawFrame made;
        made.address = Address{at};
        made.code = code_address;
        made.instruction = instruction(code_address, unit);
        return made;
    }
    // Root first, one frame each, at addresses of their own.
    Walk walk(const std::vector<Address>& root_first, int leaf_unit = 4) const {
        Walk made;
        made.end = WalkEnd::kRoot;
        for (std::size_t i = root_first.size(); i-- > 0;) {
            made.frames.push_back(frame(root_first[i], 0x10000 + i * 0x100, i + 1 == root_first.size() ? leaf_unit : 4));
        }
        return made;
    }
    // "main;f;leaf", markers included.
    std::string text(StackId stack) const {
        std::string joined;
        for (; stack != kRootStack; stack = stacks.node(stack).parent) {
            const std::string name(stacks.string(stacks.frame(stacks.node(stack).frame).name));
            joined = joined.empty() ? name : name + ";" + joined;
        }
        return joined;
    }

    FakeMemory memory;
    ProcessBuilder builder;
    FrameShape shape;
    StackTable stacks;
    CodeCache codes;
    StackBuilder stack_builder;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        test(known);
    }
}

}  // namespace pyprof::test
