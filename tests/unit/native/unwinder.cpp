// SPDX-License-Identifier: Apache-2.0
//
// Walks over stacks and tables written by hand: what is shown, and why a walk ends.
#include "native/unwinder.h"

#include "support/cfi_builder.h"
#include "support/code_target.h"

#include <catch2/catch.hpp>

#include <dwarf.h>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr std::uint64_t kCode = 0x400000;
constexpr std::uint64_t kStack = 0x7000'0000;
const CfiBuilder::Codes kUsual{DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};

// Functions of the file: where they start, and how they are unwound.
constexpr std::uint64_t kLeaf = 0x100;         // nothing on the stack but the return address
constexpr std::uint64_t kSaving = 0x200;       // 32 bytes, rbp saved below the return address
constexpr std::uint64_t kFramed = 0x300;       // CFA from rbp, which is saved
constexpr std::uint64_t kStart = 0x400;        // the outermost
constexpr std::uint64_t kInterrupted = 0x500;  // a signal frame: all registers at fixed places
constexpr std::uint64_t kStuck = 0x600;        // its CFA is its own stack pointer
constexpr std::uint64_t kEndless = 0x700;      // as kLeaf
constexpr std::uint64_t kForgetful = 0x780;    // says that the stack pointer is gone
constexpr std::uint64_t kFunctionSize = 0x80;

ModuleFile::Contents usual_file() {
    CfiBuilder builder(CfiSection::Kind::kEhFrame, kUsual);
    builder.add_function(kLeaf, kFunctionSize, {});
    builder.add_function(kSaving, kFunctionSize, {DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 6, 2});
    builder.add_function(kFramed, kFunctionSize, {DW_CFA_def_cfa, 6, 16, DW_CFA_offset | 6, 2});
    builder.add_function(kStart, kFunctionSize, {DW_CFA_undefined, 16});
    builder.add_function(kStuck, kFunctionSize, {DW_CFA_def_cfa_offset, 0});
    builder.add_function(kEndless, kFunctionSize, {});
    builder.add_function(kForgetful, kFunctionSize, {DW_CFA_undefined, 7});
    return builder.contents();
}

ModuleFile::Contents signal_file() {
    CfiBuilder builder(CfiSection::Kind::kEhFrame, kUsual, "zRS");
    builder.add_function(
        kInterrupted, kFunctionSize,
        {DW_CFA_def_cfa_expression, 3, DW_OP_breg7, 16, DW_OP_deref,  // the saved stack pointer
         DW_CFA_expression, 16, 2, DW_OP_breg7, 8,                    //
         DW_CFA_expression, 6, 2, DW_OP_breg7, 24});
    return builder.contents();
}

struct Fixture {
    Fixture() {
        target.map_code(kCode, "/lib/usual.so", usual_file());
        target.map_code(kCode + 0x20000, "/lib/signal.so", signal_file());
        target.map_code(kCode + 0x40000, "", {});
        target.map_code(kCode + 0x60000, "/gone", {});
        copy.begin = Address{kStack - kRedZoneBytes};
        copy.bytes.resize(kRedZoneBytes + 0x400);
        at(kLeaf);
        copy.registers.set(RegisterSet::kRsp, kStack);
    }
    void at(std::uint64_t offset) { copy.registers.set(RegisterSet::kReturnAddress, kCode + offset); }
    void put(std::uint64_t offset, std::uint64_t word) {
        std::memcpy(copy.bytes.data() + kRedZoneBytes + offset, &word, sizeof word);
    }
    UnwindEnd unwind() {
        frames.clear();
        if (!unwinder) unwinder.emplace(target);
        return unwinder->unwind(copy, frames).end;
    }
    [[nodiscard]] std::vector<std::uint64_t> offsets() const {
        std::vector<std::uint64_t> found;
        for (const NativeFrame& frame : frames) found.push_back(raw(frame.pc) - kCode);
        return found;
    }

    CodeTarget target;
    std::optional<Unwinder> unwinder;
    StackCopy copy;
    std::vector<NativeFrame> frames;
};

using Offsets = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE_METHOD(Fixture, "unwinder: frames follow each other to the outermost") {
    put(0, kCode + kSaving + 5);       // of kLeaf
    put(8 + 16, kStack + 0x100);       // rbp, saved by kSaving at CFA - 16
    put(8 + 24, kCode + kFramed + 5);  // its return address
    put(0x100, 0x1234);                // rbp of kFramed's caller
    put(0x108, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(offsets() == Offsets{kLeaf, kSaving + 5, kFramed + 5, kStart + 5});
    CHECK_FALSE(frames[0].is_call_site);
    CHECK(frames[1].is_call_site);
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) CHECK(frames[i].cfa == frames[i + 1].sp);
    CHECK(raw(frames[1].cfa) == kStack + 8 + 32);
    CHECK(raw(frames[2].cfa) == kStack + 0x110);
    CHECK(unwinder->modules().module(frames[0].module).path == "/lib/usual.so");
    CHECK(target.readings == 1);
}

TEST_CASE_METHOD(Fixture, "unwinder: a call at the very end of a function is looked up in it") {
    put(0, kCode + kStart + kFunctionSize);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(frames.back().lookup() == Address{kCode + kStart + kFunctionSize - 1});
}

TEST_CASE_METHOD(Fixture, "unwinder: a return address of nothing ends a stack") {
    put(0, 0);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(offsets() == Offsets{kLeaf});
    put(0, 1);
    CHECK(unwind() == UnwindEnd::kNotCode);
    CHECK(offsets() == Offsets{kLeaf});
    at(0 - kCode);
    CHECK(unwind() == UnwindEnd::kNotCode);
    CHECK(frames.empty());
}

TEST_CASE_METHOD(Fixture, "unwinder: an unknown register is never guessed") {
    at(kFramed);
    CHECK(unwind() == UnwindEnd::kUnknownRegister);
    CHECK(offsets() == Offsets{kFramed});
    CHECK(frames.back().cfa == kNullAddress);
    // A called function gives back rbp, but not r10.
    copy.registers.set(RegisterSet::kRbp, kStack + 0x100);
    at(kLeaf);
    put(0, kCode + kFramed + 5);
    put(0x108, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(offsets() == Offsets{kLeaf, kFramed + 5, kStart + 5});
}

TEST_CASE_METHOD(Fixture, "unwinder: code that is nowhere, without tables or without a file ends the walk") {
    put(0, 0x1234'5678);
    CHECK(unwind() == UnwindEnd::kNotCode);
    CHECK(frames.back().module == kNoModule);
    put(0, kCode + 0x40005);
    CHECK(unwind() == UnwindEnd::kNoRule);
    CHECK(frames.back().module == kAnonymous);
    put(0, kCode + 0x60005);
    CHECK(unwind() == UnwindEnd::kNoRule);
    CHECK(unwinder->modules().module(frames.back().module).problem == "cannot open '/gone'");
    put(0, kCode + 0x900);  // a gap between functions
    CHECK(unwind() == UnwindEnd::kNoRule);
}

TEST_CASE_METHOD(Fixture,
                 "unwinder: anonymous code is crossed by its frame pointer only where that is trusted") {
    put(0, kCode + 0x40005);
    copy.registers.set(RegisterSet::kRbp, kStack + 0x80);
    put(0x80, kStack + 0x100);
    put(0x88, kCode + kFramed + 5);
    put(0x108, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kNoRule);
    unwinder->trust_frame_pointer_in_anonymous_code(true);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(offsets() == Offsets{kLeaf, 0x40005, kFramed + 5, kStart + 5});
    CHECK(raw(frames[1].cfa) == kStack + 0x90);
    put(0x88, 0x1234);  // leads to no code
    CHECK(unwind() == UnwindEnd::kNoRule);
    copy.registers.set(RegisterSet::kRbp, kStack + 1);
    CHECK(unwind() == UnwindEnd::kNoRule);
}

TEST_CASE_METHOD(Fixture, "unwinder: a stack that leaves the copy, stands still or never ends is cut") {
    at(kSaving);
    copy.registers.set(RegisterSet::kRsp, kStack + 0x3f0);
    CHECK(unwind() == UnwindEnd::kOutsideCopy);
    copy.registers.set(RegisterSet::kRsp, kStack);
    at(kStuck);
    CHECK(unwind() == UnwindEnd::kBadRule);
    put(0, kCode + kLeaf);
    at(kForgetful);
    CHECK(unwind() == UnwindEnd::kBadRule);
    copy.bytes.resize(1 << 20);
    for (std::uint64_t i = 0; i < (1 << 20) - kRedZoneBytes; i += 8) put(i, kCode + kEndless + 5);
    at(kEndless);
    CHECK(unwind() == UnwindEnd::kTooDeep);
    CHECK(frames.size() == 20'000);
}

TEST_CASE_METHOD(Fixture, "unwinder: what a signal interrupted did not call") {
    // Nobody called it, so the byte before it must not count; C libraries let their tables begin one byte
    // early.
    put(0, kCode + 0x20000 + kInterrupted + 1);
    put(8 + 8, kCode + kFramed + 7);  // the signal frame's stack pointer is kStack + 8
    put(8 + 16, kStack + 0x200);
    put(8 + 24, kStack + 0x2f0);
    put(0x2f8, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(offsets() == Offsets{kLeaf, 0x20000 + kInterrupted + 1, kFramed + 7, kStart + 5});
    CHECK_FALSE(frames[2].is_call_site);
    CHECK(raw(frames[2].sp) == kStack + 0x200);
    CHECK(frames[3].is_call_site);
    put(8 + 16, kStack - 0x10000);  // it was on another stack
    CHECK(unwind() == UnwindEnd::kOutsideCopy);
}

TEST_CASE_METHOD(Fixture, "unwinder: goes on below a gap from a frame whose end is known") {
    Unwinder resuming(target);
    put(0x100 - 16, kStack + 0x180);  // rbp, saved by kSaving
    put(0x100 - 8, kCode + kFramed + 5);
    put(0x188, kCode + kStart + 5);
    const Unwound unwound =
        resuming.resume(copy, Address{kCode + kSaving + 9}, Address{kStack + 0x100}, frames);
    CHECK(unwound.is_complete());
    CHECK(offsets() == Offsets{kFramed + 5, kStart + 5});
    CHECK(resuming.resume(copy, Address{kCode + 0x40000}, Address{kStack}, frames).end == UnwindEnd::kNoRule);
}

TEST_CASE_METHOD(Fixture, "unwinder: another file at the same place is another module with its own rows") {
    put(0, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kRoot);
    const ModuleId before = frames[0].module;
    const std::uint64_t changes = unwinder->modules().changes();
    unwinder->refresh();
    CHECK(unwinder->modules().changes() == changes);
    CfiBuilder other(CfiSection::Kind::kEhFrame, kUsual);
    other.add_function(kLeaf, kFunctionSize, {DW_CFA_undefined, 16});
    target.map_code(kCode, "/lib/other.so", other.contents());
    unwinder->refresh();
    CHECK(unwinder->modules().changes() == changes + 1);
    CHECK(unwind() == UnwindEnd::kRoot);
    CHECK(frames.size() == 1);
    CHECK(frames[0].module != before);
    CHECK(unwinder->modules().module(before).path == "/lib/usual.so");
}

TEST_CASE_METHOD(Fixture, "unwinder: a file that comes back to its place is the module that it was") {
    put(0, kCode + kStart + 5);
    CHECK(unwind() == UnwindEnd::kRoot);
    const ModuleId before = frames[0].module;
    const std::size_t modules = unwinder->modules().size();
    const Mapping there = target.mappings.at(kCode);
    for (int i = 0; i < 3; ++i) {
        target.mappings.erase(kCode);
        unwinder->refresh();
        CHECK(unwinder->modules().find(Address{kCode + kStart}) == kNoModule);
        target.mappings[kCode] = there;
        unwinder->refresh();
        CHECK(unwinder->modules().find(Address{kCode + kStart}) == before);
    }
    CHECK(unwinder->modules().size() == modules);
    CHECK(unwinder->modules().changes() >= 6);
    CHECK(unwind() == UnwindEnd::kRoot);
}

TEST_CASE("row cache: keeps many rows, and starts anew when there are too many") {
    RowCache cache;
    UnwindRow row;
    for (std::uint32_t i = 1; i <= 30'000; ++i) {
        row.cfa_value = static_cast<std::int32_t>(i);
        cache.add(Address{i * 4096U}, i, row);
    }
    for (std::uint32_t i = 1; i <= 30'000; ++i) {
        const auto* entry = cache.find(Address{i * 4096U});
        REQUIRE(entry != nullptr);
        REQUIRE(entry->module == i);
        REQUIRE(cache.row(*entry).cfa_value == static_cast<std::int32_t>(i));
    }
    CHECK(cache.find(Address{5}) == nullptr);
    for (std::uint32_t i = 1; i <= 10'000; ++i) cache.add(Address{i * 4096U + 1}, i, row);
    CHECK(cache.size() < 32'769);
    CHECK(cache.find(Address{10'000U * 4096U + 1}) != nullptr);
    CHECK(cache.find(Address{4096}) == nullptr);
}
