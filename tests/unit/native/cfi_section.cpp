// SPDX-License-Identifier: Apache-2.0
//
// Instructions one by one, on sections written by hand (DWARF 5, 6.4.2).
#include "native/cfi_section.h"

#include "support/cfi_builder.h"

#include <catch2/catch.hpp>

#include <dwarf.h>

using namespace pyprof;
using pyprof::test::CfiBuilder;
using Kind = RegisterRule::Kind;

namespace {

constexpr std::uint64_t kStart = 0x2000;
// What compilers start every function with: the CFA is rsp + 8, the return address stands below it.
const CfiBuilder::Codes kUsual{DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};

std::optional<CfiSection::Found> find(const CfiBuilder::Codes& program, std::uint64_t offset,
                                      CfiSection::Kind kind = CfiSection::Kind::kEhFrame) {
    CfiBuilder builder(kind, kUsual);
    builder.add_function(kStart, 0x100, program);
    return builder.section().find(FileAddress{kStart + offset});
}

const RegisterRule* rule_of(const UnwindRow& row, unsigned number) {
    for (const RegisterRule& rule : row.all_rules()) {
        if (rule.number == number) return &rule;
    }
    return nullptr;
}

bool is_rule(const std::optional<CfiSection::Found>& found, unsigned number, Kind kind,
             std::int32_t value = 0) {
    if (!found) return false;
    const RegisterRule* rule = rule_of(found->row, number);
    return rule != nullptr && rule->kind == kind && rule->value == value;
}

}  // namespace

TEST_CASE("cfi: rows count from their address to the next one's") {
    // push rbp; mov rbp, rsp
    const CfiBuilder::Codes program{DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset,   16, DW_CFA_offset | 6, 2,
                                    DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6};
    for (const auto kind : {CfiSection::Kind::kEhFrame, CfiSection::Kind::kDebugFrame}) {
        const auto first = find(program, 0, kind);
        REQUIRE(first);
        CHECK(first->row.cfa_register == 7);
        CHECK(first->row.cfa_value == 8);
        CHECK(raw(first->end) == kStart + 1);
        CHECK(rule_of(first->row, 6) == nullptr);
        CHECK(is_rule(first, 16, Kind::kAtOffset, -8));
        CHECK(first->row.is_plain);
        const auto second = find(program, 3, kind);
        REQUIRE(second);
        CHECK(second->row.cfa_register == 7);
        CHECK(second->row.cfa_value == 16);
        CHECK(is_rule(second, 6, Kind::kAtOffset, -16));
        CHECK(raw(second->end) == kStart + 4);
        const auto last = find(program, 0xff, kind);
        REQUIRE(last);
        CHECK(last->row.cfa_register == 6);
        CHECK(last->row.cfa_value == 16);
        CHECK(raw(last->end) == kStart + 0x100);
        CHECK(raw(last->function) == kStart);
        CHECK_FALSE(find(program, 0x100, kind));
    }
}

TEST_CASE("cfi: states are remembered and restored with their CFA") {
    const CfiBuilder::Codes program{DW_CFA_def_cfa_offset,
                                    16,
                                    DW_CFA_offset | 3,
                                    2,
                                    DW_CFA_remember_state,
                                    DW_CFA_advance_loc | 4,
                                    DW_CFA_restore | 3,
                                    DW_CFA_def_cfa_offset,
                                    8,
                                    DW_CFA_advance_loc | 1,
                                    DW_CFA_restore_state};
    const auto epilogue = find(program, 4);
    REQUIRE(epilogue);
    CHECK(epilogue->row.cfa_value == 8);
    CHECK(rule_of(epilogue->row, 3) == nullptr);
    const auto behind = find(program, 5);
    REQUIRE(behind);
    CHECK(behind->row.cfa_value == 16);
    CHECK(is_rule(behind, 3, Kind::kAtOffset, -16));
}

TEST_CASE("cfi: each kind of rule") {
    CHECK(is_rule(find({DW_CFA_undefined, 16}, 0), 16, Kind::kUndefined));
    CHECK(is_rule(find({DW_CFA_same_value, 3}, 0), 3, Kind::kSame));
    CHECK(is_rule(find({DW_CFA_register, 16, 2}, 0), 16, Kind::kInRegister, 2));
    CHECK(is_rule(find({DW_CFA_val_offset, 7, 2}, 0), 7, Kind::kIsOffset, -16));
    CHECK(is_rule(find({DW_CFA_val_offset_sf, 7, 0x7e}, 0), 7, Kind::kIsOffset, 16));
    CHECK(is_rule(find({DW_CFA_offset_extended, 12, 3}, 0), 12, Kind::kAtOffset, -24));
    CHECK(is_rule(find({DW_CFA_offset_extended_sf, 12, 0x7d}, 0), 12, Kind::kAtOffset, 24));
    CHECK(is_rule(find({DW_CFA_GNU_negative_offset_extended, 12, 3}, 0), 12, Kind::kAtOffset, 24));
    CHECK(is_rule(find({DW_CFA_offset | 3, 2, DW_CFA_restore_extended, 16}, 0), 16, Kind::kAtOffset, -8));
    CHECK_FALSE(find({DW_CFA_undefined, 16}, 0)->row.is_plain);
    const auto expression = find({DW_CFA_expression, 6, 2, DW_OP_breg7, 8}, 0);
    REQUIRE(expression);
    const RegisterRule* rule = rule_of(expression->row, 6);
    REQUIRE(rule != nullptr);
    CHECK(rule->kind == Kind::kAtExpression);
    CHECK(rule->size == 2);
    // Vector registers take no part.
    const auto vector = find({DW_CFA_offset_extended, 17, 3}, 0);
    REQUIRE(vector);
    CHECK(vector->row.rule_count == 1);
}

TEST_CASE("cfi: each way to move on") {
    const auto ends_at = [](const CfiBuilder::Codes& program) { return raw(find(program, 0)->end) - kStart; };
    CHECK(ends_at({DW_CFA_advance_loc1, 0x40, DW_CFA_def_cfa_offset, 16}) == 0x40);
    CHECK(ends_at({DW_CFA_advance_loc2, 0x80, 0, DW_CFA_def_cfa_offset, 16}) == 0x80);
    CHECK(ends_at({DW_CFA_advance_loc4, 0x90, 0, 0, 0, DW_CFA_def_cfa_offset, 16}) == 0x90);
    CHECK(ends_at({DW_CFA_GNU_args_size, 0x10, DW_CFA_nop}) == 0x100);
    CHECK(ends_at({DW_CFA_advance_loc4, 0xff, 0xff, 0xff, 0xff}) == 0x100);
}

TEST_CASE("cfi: what can't be understood is no row") {
    CHECK_FALSE(find({0x3f}, 0));
    CHECK_FALSE(find({DW_CFA_restore_state}, 0));
    CHECK_FALSE(find({DW_CFA_expression, 6, 0x7f, DW_OP_breg7, 8}, 0));
    CHECK_FALSE(find({DW_CFA_def_cfa, 17, 8}, 0));
    CHECK_FALSE(find({DW_CFA_def_cfa_expression, 1, DW_OP_lit1, DW_CFA_def_cfa_offset, 8}, 0));
    CHECK_FALSE(find({DW_CFA_register, 16, 0x20}, 0));
    CHECK_FALSE(find({DW_CFA_offset | 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}, 0));
    CfiBuilder::Codes deep;
    deep.assign(1000, DW_CFA_remember_state);
    CHECK_FALSE(find(deep, 0));
}

TEST_CASE("cfi: a signal frame is told by its augmentation, an unknown augmentation is refused") {
    CfiBuilder signal(CfiSection::Kind::kEhFrame, kUsual, "zRS");
    signal.add_function(kStart, 0x10, {});
    const auto found = signal.section().find(FileAddress{kStart});
    REQUIRE(found);
    CHECK(found->row.is_signal_frame);
    CHECK_FALSE(found->row.is_plain);
    CfiBuilder unknown(CfiSection::Kind::kEhFrame, kUsual, "zRX");
    unknown.add_function(kStart, 0x10, {});
    CHECK_FALSE(unknown.section().find(FileAddress{kStart}));
}

TEST_CASE("cfi: functions are found among others, gaps are nobody's") {
    CfiBuilder builder(CfiSection::Kind::kEhFrame, kUsual);
    for (const std::uint64_t start : {0x5000U, 0x3000U, 0x4000U})
        builder.add_function(start, 0x800, {DW_CFA_def_cfa_offset, static_cast<int>(start >> 8)});
    const CfiSection section = builder.section();
    for (const std::uint64_t start : {0x3000U, 0x4000U, 0x5000U}) {
        for (const std::uint64_t offset : {0U, 0x7ffU}) {
            const auto found = section.find(FileAddress{start + offset});
            REQUIRE(found);
            CHECK(raw(found->function) == start);
            CHECK(found->row.cfa_value == static_cast<std::int32_t>(start >> 8));
        }
        CHECK_FALSE(section.find(FileAddress{start + 0x800}));
        CHECK_FALSE(section.find(FileAddress{start - 1}));
    }
}

TEST_CASE("cfi: a section cut anywhere is read as far as it goes") {
    CfiBuilder builder(CfiSection::Kind::kEhFrame, kUsual);
    builder.add_function(kStart, 0x10, {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16});
    const auto whole = builder.contents();
    for (std::size_t size = 0; size < whole.bytes.size(); ++size) {
        auto cut = whole;
        cut.bytes.resize(size);
        CHECK_FALSE(CfiSection(CfiSection::Kind::kEhFrame, cut, std::nullopt).find(FileAddress{kStart}));
    }
}
