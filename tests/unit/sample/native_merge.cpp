// SPDX-License-Identifier: Apache-2.0
#include "sample/native_merge.h"

#include <catch2/catch.hpp>

#include <string>

namespace pyprof {
namespace {

// A stack of frames of 0x100 bytes each, leaf first, from 0x1000 on.
std::vector<NativeFrame> frames(std::size_t count) {
    std::vector<NativeFrame> list;
    for (std::uint64_t i = 0; i < count; ++i) {
        NativeFrame frame;
        frame.sp = Address{0x1000 + i * 0x100};
        frame.cfa = Address{0x1100 + i * 0x100};
        list.push_back(frame);
    }
    return list;
}

Address in_frame(std::uint64_t i) { return Address{0x1040 + i * 0x100}; }

// "n0 e1 p0": native, loop, Python, leaf first; "x": something is missing.
std::string text_of(const Merged& merged) {
    std::string text;
    for (const MergedFrame& frame : merged.frames) {
        const char* kind = frame.kind == MergedFrame::Kind::kPython ? "p"
                           : frame.kind == MergedFrame::Kind::kLost ? "x"
                           : frame.runs_python                      ? "e"
                                                                    : "n";
        text += (text.empty() ? "" : " ") + std::string(kind);
        if (frame.kind != MergedFrame::Kind::kLost) text += std::to_string(frame.index);
    }
    return text;
}

std::string by_address(std::size_t count, const std::vector<PythonRun>& runs, bool complete = true,
                       const std::vector<std::uint32_t>& gaps = {}, std::uint32_t* unplaced = nullptr) {
    const auto native = frames(count);
    Merged merged;
    merge_by_address({native, complete, gaps}, runs, merged);
    if (unplaced != nullptr) *unplaced = merged.unplaced;
    return text_of(merged);
}

std::string by_count(const std::string& kinds, std::uint32_t python, bool complete = true) {
    const auto native = frames(kinds.size());
    std::vector<bool> is_eval;
    for (const char kind : kinds) is_eval.push_back(kind == 'e');
    Merged merged;
    merge_by_count({native, complete, {}}, is_eval, python, merged);
    return text_of(merged);
}

}  // namespace

TEST_CASE("native merge: recursion in one loop stands above that loop, with nothing between") {
    CHECK(by_address(3, {{in_frame(1), 3}}) == "n0 p0 p1 p2 e1 n2");
}

TEST_CASE("native merge: callbacks through C alternate with it") {
    CHECK(by_address(7, {{in_frame(1), 1}, {in_frame(3), 2}, {in_frame(5), 1}}) == "n0 p0 e1 n2 p1 p2 e3 n4 p3 e5 n6");
}

TEST_CASE("native merge: a loop of the leaf that has no entry yet stays a native frame") {
    CHECK(by_address(4, {{in_frame(2), 1}}) == "n0 n1 p0 e2 n3");
}

TEST_CASE("native merge: a thread without Python frames, and Python without native ones") {
    CHECK(by_address(2, {}) == "n0 n1");
    CHECK(by_address(0, {{in_frame(0), 2}}) == "p0 p1");
}

TEST_CASE("native merge: two interpreters on one thread, each at its own place") {
    CHECK(by_address(6, {{in_frame(0), 1}, {in_frame(2), 1}, {in_frame(4), 1}}) == "p0 e0 n1 p1 e2 n3 p2 e4 n5");
}

TEST_CASE("native merge: a stack that could not be unwound keeps its Python frames under a marker") {
    CHECK(by_address(2, {{in_frame(1), 1}, {in_frame(7), 2}}, false) == "n0 p0 e1 x p1 p2");
    CHECK(by_address(1, {{in_frame(7), 1}}, false) == "n0 x p0");
    CHECK(by_address(2, {{in_frame(1), 1}}, false) == "n0 p0 e1");
    CHECK(by_address(2, {}, false) == "n0 n1 x");
}

TEST_CASE("native merge: unwinding that went on at a loop has the gap marked") {
    CHECK(by_address(4, {{in_frame(2), 1}}, true, {2}) == "n0 n1 x p0 e2 n3");
    CHECK(by_address(6, {{in_frame(1), 1}, {in_frame(4), 2}}, true, {1, 3}) == "n0 x p0 e1 n2 x n3 p1 p2 e4 n5");
}

TEST_CASE("native merge: an entry in no frame is counted and its Python frames keep their order") {
    std::uint32_t unplaced = 0;
    CHECK(by_address(4, {{in_frame(0), 1}, {Address{0x10}, 1}, {in_frame(2), 1}}, true, {}, &unplaced) ==
          "p0 e0 n1 p1 p2 e2 n3");
    CHECK(unplaced == 1);
    CHECK(by_address(2, {{Address{0x9999}, 2}}, true, {}, &unplaced) == "n0 n1 p0 p1");
    CHECK(unplaced == 1);
}

TEST_CASE("native merge: several empty runs and a last frame without a rule") {
    CHECK(by_address(3, {{in_frame(0), 0}, {in_frame(1), 1}}) == "e0 p0 e1 n2");
    auto native = frames(2);
    native[1].cfa = kNullAddress;
    Merged merged;
    merge_by_address({native, false, {}}, std::vector<PythonRun>{{in_frame(1), 1}}, merged);
    CHECK(text_of(merged) == "n0 n1 x p0");
}

TEST_CASE("native merge: up to 3.10 loops are counted from the root") {
    CHECK(by_count("neenen", 3) == "n0 p0 e1 p1 e2 n3 p2 e4 n5");
    CHECK(by_count("eenen", 2) == "n0 p0 e1 n2 p1 e3 n4");  // the leaf's loop is entering or leaving
    CHECK(by_count("nen", 2) == "n0 n1 n2 p0 p1");           // fewer loops than frames: whose they are is not known
    CHECK(by_count("nn", 1) == "n0 n1 p0");
}

TEST_CASE("native merge: of more loops than Python frames the lowest belong to another greenlet") {
    CHECK(by_count("enenenen", 2) == "p0 e0 n1 p1 e2 n3 n4 n5 n6 n7");
}

TEST_CASE("native merge: a cut stack is counted from the leaf") {
    CHECK(by_count("nen", 3, false) == "n0 p0 e1 n2 x p1 p2");
}

}  // namespace pyprof
