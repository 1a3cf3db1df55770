// SPDX-License-Identifier: Apache-2.0
#include "native/dwarf_expression.h"

#include <catch2/catch.hpp>

#include <dwarf.h>
#include <initializer_list>

using namespace pyprof;

namespace {

std::optional<std::uint64_t> evaluate(std::initializer_list<int> codes, const RegisterSet& registers = {},
                                      const StackCopy& copy = {}, std::optional<std::uint64_t> first = {}) {
    std::vector<std::byte> bytes;
    for (const int code : codes) bytes.push_back(static_cast<std::byte>(code));
    return evaluate_expression(bytes, registers, copy, first);
}

StackCopy two_words() {
    StackCopy copy;
    copy.begin = Address{0x1000};
    copy.bytes.resize(16);
    copy.bytes[0] = std::byte{0x34};
    copy.bytes[1] = std::byte{0x12};
    copy.bytes[8] = std::byte{7};
    return copy;
}

}  // namespace

TEST_CASE("expression: the CFA of a .plt entry, as linkers write it") {
    // bfd/elfxx-x86.c: rsp + 8, and 8 more once the index has been pushed, from byte 11 of the entry on.
    const std::initializer_list<int> plt{DW_OP_breg7, 8,         DW_OP_breg16, 0,
                                         DW_OP_lit15, DW_OP_and, DW_OP_lit11,  DW_OP_ge,
                                         DW_OP_lit3,  DW_OP_shl, DW_OP_plus};
    RegisterSet registers;
    registers.set(RegisterSet::kRsp, 0x7000);
    registers.set(RegisterSet::kReturnAddress, 0x401026);
    CHECK(evaluate(plt, registers) == 0x7008);
    registers.set(RegisterSet::kReturnAddress, 0x40102b);
    CHECK(evaluate(plt, registers) == 0x7010);
}

TEST_CASE("expression: a saved stack pointer is read from the copied stack") {
    RegisterSet registers;
    registers.set(RegisterSet::kRbp, 0x1010);
    CHECK(evaluate({DW_OP_breg6, 0x70, DW_OP_deref}, registers, two_words()) == 0x1234);  // -16
    CHECK(evaluate({DW_OP_breg6, 0x78, DW_OP_deref}, registers, two_words()) == 7);       // -8
    CHECK_FALSE(
        evaluate({DW_OP_breg6, 0x79, DW_OP_deref}, registers, two_words()));  // its last byte is outside
    CHECK_FALSE(evaluate({DW_OP_breg6, 0x68, DW_OP_deref}, registers, two_words()));
}

TEST_CASE("expression: an unknown register gives no result") {
    CHECK_FALSE(evaluate({DW_OP_breg6, 0}));
    CHECK_FALSE(evaluate({DW_OP_breg0 + 17, 0}));
    CHECK_FALSE(evaluate({DW_OP_bregx, 0x80, 0x80, 0x01, 0}));
}

TEST_CASE("expression: operators do as DWARF says") {
    CHECK(evaluate({DW_OP_lit5, DW_OP_lit3, DW_OP_minus}) == 2);
    CHECK(evaluate({DW_OP_const1s, 0xfe, DW_OP_lit3, DW_OP_lt}) == 1);
    CHECK(evaluate({DW_OP_const1u, 0xfe, DW_OP_lit3, DW_OP_lt}) == 0);
    CHECK(evaluate({DW_OP_const1s, 0xf0, DW_OP_lit2, DW_OP_shra}) == ~std::uint64_t{3});
    CHECK(evaluate({DW_OP_lit1, DW_OP_const1u, 64, DW_OP_shl}) == 0);
    CHECK(evaluate({DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_rot, DW_OP_drop}) == 1);
    CHECK(evaluate({DW_OP_lit1, DW_OP_lit2, DW_OP_over, DW_OP_plus}) == 3);
    CHECK(evaluate({DW_OP_lit9, DW_OP_plus_uconst, 0x80, 0x01}) == 137);
    CHECK(evaluate({DW_OP_lit1, DW_OP_bra, 1, 0, DW_OP_lit4, DW_OP_lit5}) == 5);
    CHECK(evaluate({DW_OP_plus_uconst, 8}, {}, {}, 100) == 108);
}

TEST_CASE("expression: what is cut, unknown, empty or endless gives no result") {
    CHECK_FALSE(evaluate({}));
    CHECK_FALSE(evaluate({DW_OP_plus}));
    CHECK_FALSE(evaluate({DW_OP_lit1, DW_OP_plus}));
    CHECK_FALSE(evaluate({DW_OP_const8u, 1, 2}));
    CHECK_FALSE(evaluate({DW_OP_lit1, DW_OP_skip, 0xfd, 0xff}));  // back to itself
    CHECK_FALSE(evaluate({DW_OP_lit1, DW_OP_skip, 0, 0x80}));     // before the start
    CHECK_FALSE(evaluate({DW_OP_lit1, DW_OP_lit1, DW_OP_skip, 0xfc, 0xff}));
    CHECK_FALSE(evaluate({DW_OP_lit1, DW_OP_call_frame_cfa}));
}
