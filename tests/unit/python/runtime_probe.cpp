// SPDX-License-Identifier: Apache-2.0
//
// A place is taken for _PyRuntime only when a stack can be walked from it, read as the right version.
#include "python/runtime_probe.h"

#include "python/layouts.h"
#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct FakeProcess {
    explicit FakeProcess(const Layout& layout) : builder(memory, layout) {
        const Address code = builder.code({});
        auto stack = builder.data_stack();
        Address back = kNullAddress;
        if (has(layout.frame.owner_cstack)) back = builder.shim(kNullAddress);
        const Address outer = builder.any_frame(stack, {.code = code, .back = back, .index = 2, .stack = 3, .is_entry = true});
        leaf = builder.any_frame(stack, {.code = code, .back = outer, .index = 2});
        const Address interpreter = builder.interpreter();
        thread = builder.thread({.interpreter = interpreter, .leaf = leaf, .stack = stack});
        builder.set_threads(interpreter, {thread});
        runtime = builder.runtime({interpreter});
        builder.set_gil(runtime, interpreter, thread);
    }
    FakeMemory memory;
    ProcessBuilder builder;
    Address leaf{};
    Address thread{};
    Address runtime{};
};

}  // namespace

TEST_CASE("runtime probe: a process of each version is recognised as that version") {
    for (int minor = 8; minor <= 12; ++minor) {
        INFO("3." << minor);
        FakeProcess process(*layout_of(3, minor));
        CHECK(is_runtime(process.memory, *layout_of(3, minor), process.runtime));
        CHECK(probe_minor(process.memory, process.runtime) == minor);
    }
}

TEST_CASE("runtime probe: without a frame, or beside the place, it is none") {
    for (int minor = 8; minor <= 12; ++minor) {
        INFO("3." << minor);
        FakeProcess process(*layout_of(3, minor));
        CHECK_FALSE(is_runtime(process.memory, *layout_of(3, minor), process.runtime + 8));
        process.builder.set_leaf(process.thread, kNullAddress);
        CHECK(probe_minor(process.memory, process.runtime) == 0);
    }
}

TEST_CASE("runtime probe: a stack that never ends proves nothing") {
    FakeProcess process(*layout_of(3, 8));
    process.builder.put_frame(process.leaf, {.code = process.builder.code({}), .back = process.leaf, .index = 2});
    CHECK_FALSE(is_runtime(process.memory, *layout_of(3, 8), process.runtime));
}
