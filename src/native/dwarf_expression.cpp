// SPDX-License-Identifier: Apache-2.0
#include "native/dwarf_expression.h"

#include "native/dwarf_reader.h"

#include <dwarf.h>
#include <array>

namespace pyprof {
namespace {

constexpr int kMostSteps = 1000;  // .plt takes 8; a loop must end

class Evaluator {
public:
    Evaluator(std::span<const std::byte> expression, const RegisterSet& registers, const StackCopy& copy)
        : in_(expression), registers_(registers), copy_(copy) {}

    std::optional<std::uint64_t> run(std::optional<std::uint64_t> first) {
        if (first) push(*first);
        for (int step = 0; !in_.is_at_end(); ++step) {
            if (step == kMostSteps) return std::nullopt;
            take(in_.take<std::uint8_t>());
            if (in_.has_failed()) return std::nullopt;
        }
        const std::uint64_t result = pop();
        if (in_.has_failed()) return std::nullopt;
        return result;
    }

private:
    void push(std::uint64_t value) {
        if (depth_ == stack_.size()) return in_.fail();
        stack_[depth_++] = value;
    }
    std::uint64_t pick(std::size_t below_top) {
        if (below_top < depth_) return stack_[depth_ - 1 - below_top];
        in_.fail();
        return 0;
    }
    std::uint64_t pop() {
        const std::uint64_t value = pick(0);
        if (depth_ > 0) --depth_;
        return value;
    }
    void push_register(std::uint64_t number, std::int64_t offset) {
        if (number >= RegisterSet::kCount || !registers_.knows(static_cast<unsigned>(number)))
            return in_.fail();
        push(registers_.value(static_cast<unsigned>(number)) + static_cast<std::uint64_t>(offset));
    }
    void take(std::uint8_t code);
    bool take_constant(std::uint8_t code);
    bool take_stack(std::uint8_t code);
    bool take_unary(std::uint8_t code);
    bool take_binary(std::uint8_t code);

    DwarfReader in_;
    const RegisterSet& registers_;
    const StackCopy& copy_;
    std::array<std::uint64_t, 32> stack_{};
    std::size_t depth_ = 0;
};

bool Evaluator::take_constant(std::uint8_t code) {
    const auto push_signed = [&](std::int64_t value) { push(static_cast<std::uint64_t>(value)); };
    switch (code) {
        case DW_OP_const1u:
            push(in_.take<std::uint8_t>());
            return true;
        case DW_OP_const1s:
            push_signed(in_.take<std::int8_t>());
            return true;
        case DW_OP_const2u:
            push(in_.take<std::uint16_t>());
            return true;
        case DW_OP_const2s:
            push_signed(in_.take<std::int16_t>());
            return true;
        case DW_OP_const4u:
            push(in_.take<std::uint32_t>());
            return true;
        case DW_OP_const4s:
            push_signed(in_.take<std::int32_t>());
            return true;
        case DW_OP_const8u:
        case DW_OP_const8s:
            push(in_.take<std::uint64_t>());
            return true;
        case DW_OP_constu:
            push(in_.take_uleb());
            return true;
        case DW_OP_consts:
            push_signed(in_.take_sleb());
            return true;
        default:
            return false;
    }
}

bool Evaluator::take_stack(std::uint8_t code) {
    switch (code) {
        case DW_OP_nop:
            return true;
        case DW_OP_dup:
            push(pick(0));
            return true;
        case DW_OP_over:
            push(pick(1));
            return true;
        case DW_OP_pick:
            push(pick(in_.take<std::uint8_t>()));
            return true;
        case DW_OP_drop:
            static_cast<void>(pop());
            return true;
        case DW_OP_swap: {
            const std::uint64_t top = pop();
            const std::uint64_t next = pop();
            push(top);
            push(next);
            return true;
        }
        case DW_OP_rot: {
            const std::uint64_t top = pop();
            const std::uint64_t second = pop();
            const std::uint64_t third = pop();
            push(top);
            push(third);
            push(second);
            return true;
        }
        case DW_OP_skip:
            in_.skip(in_.take<std::int16_t>());
            return true;
        case DW_OP_bra: {
            const auto distance = in_.take<std::int16_t>();
            if (pop() != 0) in_.skip(distance);
            return true;
        }
        default:
            return false;
    }
}

bool Evaluator::take_unary(std::uint8_t code) {
    switch (code) {
        case DW_OP_deref: {
            const auto word = copy_.word_at(Address{pop()});
            if (word) {
                push(*word);
            } else {
                in_.fail();
            }
            return true;
        }
        case DW_OP_plus_uconst:
            push(pop() + in_.take_uleb());
            return true;
        case DW_OP_neg:
            push(~pop() + 1);
            return true;
        case DW_OP_not:
            push(~pop());
            return true;
        case DW_OP_abs: {
            const std::uint64_t value = pop();
            push(static_cast<std::int64_t>(value) < 0 ? ~value + 1 : value);
            return true;
        }
        default:
            return false;
    }
}

bool Evaluator::take_binary(std::uint8_t code) {
    if (code < DW_OP_and || code > DW_OP_ne || code == DW_OP_bra || depth_ < 2) return false;
    const std::uint64_t right = pop();
    const std::uint64_t left = pop();
    const auto signed_left = static_cast<std::int64_t>(left);
    const auto signed_right = static_cast<std::int64_t>(right);
    const auto is_big_shift = right >= 64;
    switch (code) {
        case DW_OP_and:
            push(left & right);
            return true;
        case DW_OP_or:
            push(left | right);
            return true;
        case DW_OP_xor:
            push(left ^ right);
            return true;
        case DW_OP_plus:
            push(left + right);
            return true;
        case DW_OP_minus:
            push(left - right);
            return true;
        case DW_OP_mul:
            push(left * right);
            return true;
        case DW_OP_shl:
            push(is_big_shift ? 0 : left << right);
            return true;
        case DW_OP_shr:
            push(is_big_shift ? 0 : left >> right);
            return true;
        case DW_OP_shra:
            push(static_cast<std::uint64_t>(signed_left >> (is_big_shift ? 63 : right)));
            return true;
        case DW_OP_eq:
            push(left == right ? 1 : 0);
            return true;
        case DW_OP_ne:
            push(left != right ? 1 : 0);
            return true;
        case DW_OP_lt:
            push(signed_left < signed_right ? 1 : 0);
            return true;
        case DW_OP_le:
            push(signed_left <= signed_right ? 1 : 0);
            return true;
        case DW_OP_gt:
            push(signed_left > signed_right ? 1 : 0);
            return true;
        case DW_OP_ge:
            push(signed_left >= signed_right ? 1 : 0);
            return true;
        default:
            return false;  // divisions: no compiler writes them here
    }
}

void Evaluator::take(std::uint8_t code) {
    if (code >= DW_OP_lit0 && code <= DW_OP_lit31) return push(std::uint64_t{code} - DW_OP_lit0);
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
        return push_register(std::uint64_t{code} - DW_OP_breg0, in_.take_sleb());
    }
    if (code == DW_OP_bregx) {
        const std::uint64_t number = in_.take_uleb();
        return push_register(number, in_.take_sleb());
    }
    if (!take_constant(code) && !take_stack(code) && !take_unary(code) && !take_binary(code)) in_.fail();
}

}  // namespace

std::optional<std::uint64_t> evaluate_expression(std::span<const std::byte> expression,
                                                 const RegisterSet& registers, const StackCopy& copy,
                                                 std::optional<std::uint64_t> first) {
    return Evaluator(expression, registers, copy).run(first);
}

}  // namespace pyprof
