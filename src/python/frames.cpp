// SPDX-License-Identifier: Apache-2.0
#include "python/frames.h"

#include <algorithm>

namespace pyprof {

namespace {

// User addresses on x86-64 and aarch64 lie below 2^47 and 2^48; a code object is 8-byte aligned.
bool can_be_code(std::uint64_t pointer) {
    return pointer >= 4096 && pointer < (1ULL << 48) && (pointer & 7) == 0;
}

}  // namespace

FrameShape::FrameShape(const Layout& layout) {
    const Layout::Frame& frame = layout.frame;
    pointer_mask_ = layout.pointer_mask;
    owner_generator_ = frame.owner_generator;
    owner_cstack_ = frame.owner_cstack;
    owner_interpreter_ = frame.owner_interpreter;
    owner_last_ = frame.owner_last;
    instruction_is_int_ = layout.instruction_kind == InstructionKind::kByteIndex ||
                          layout.instruction_kind == InstructionKind::kCodeUnitIndex;
    on_data_stack_ = layout.frame_root != FrameRoot::kThreadFrame;
    has_is_entry_ = has(frame.is_entry);

    Offset state = frame.executing;
    std::uint32_t state_bytes = 1;
    state_kind_ = layout.instruction_kind == InstructionKind::kCodeUnitIndex ? State::kFrameStateZero
                                                                             : State::kExecutingFlag;
    if (has(frame.stackpointer)) {
        state_kind_ = State::kStackPointer;
        state = frame.stackpointer;
        state_bytes = 8;
        clears_popped_ = true;
    } else if (has(frame.stacktop)) {
        state_kind_ = State::kStackTop;
        state = frame.stacktop;
        state_bytes = 4;
    }
    check(has(frame.back) && has(frame.code) && has(frame.instruction) && has(state),
          "a layout without the frame's own fields");

    Offset first = std::min({frame.back, frame.code, frame.instruction, state});
    Offset last = std::max({frame.back + 8, frame.code + 8, frame.instruction + (instruction_is_int_ ? 4 : 8),
                            state + static_cast<Offset>(state_bytes)});
    if (has(frame.owner)) last = std::max(last, frame.owner + 1);
    if (has(frame.is_entry)) last = std::max(last, frame.is_entry + 1);
    begin_ = static_cast<std::uint32_t>(first);
    bytes_ = static_cast<std::uint32_t>(last - first);
    const auto from_begin = [&](Offset offset) {
        return has(offset) ? static_cast<std::uint32_t>(offset - first) : 0U;
    };
    back_ = from_begin(frame.back);
    code_ = from_begin(frame.code);
    instruction_ = from_begin(frame.instruction);
    state_ = from_begin(state);
    owner_ = from_begin(frame.owner);
    is_entry_ = from_begin(frame.is_entry);
}

FrameShape::Parsed FrameShape::parse(const std::byte* copy, Address address) const {
    Parsed parsed;
    parsed.frame.address = address;
    parsed.back = Address{load<std::uint64_t>(copy, back_)};
    const std::uint64_t code = load<std::uint64_t>(copy, code_) & pointer_mask_;
    parsed.frame.code = Address{code};
    parsed.frame.instruction =
        instruction_is_int_
            ? static_cast<std::uint64_t>(static_cast<std::int64_t>(load<std::int32_t>(copy, instruction_)))
            : load<std::uint64_t>(copy, instruction_);
    switch (state_kind_) {
        case State::kExecutingFlag:
        case State::kFrameStateZero:
            parsed.frame.state = load<std::int8_t>(copy, state_);
            break;
        case State::kStackTop:
            parsed.frame.state = load<std::int32_t>(copy, state_);
            break;
        case State::kStackPointer:
            parsed.frame.state = static_cast<std::int64_t>(load<std::uint64_t>(copy, state_));
            break;
    }
    if (owner_last_ != kAbsent) {
        const auto owner = static_cast<std::int32_t>(load<std::int8_t>(copy, owner_));
        parsed.is_valid = owner >= 0 && owner <= owner_last_;
        parsed.is_shim = (owner_cstack_ != kAbsent && owner == owner_cstack_) ||
                         (owner_interpreter_ != kAbsent && owner == owner_interpreter_);
        parsed.frame.of_generator = owner == owner_generator_;
    }
    if (has_is_entry_) parsed.frame.through_c = load<std::uint8_t>(copy, is_entry_) != 0;
    if (!on_data_stack_) parsed.frame.through_c = true;  // every frame has an eval loop of its own
    parsed.is_entry = parsed.frame.through_c;
    if (!parsed.is_shim && !can_be_code(code)) parsed.is_valid = false;
    return parsed;
}

bool FrameShape::is_suspended(const RawFrame& frame) const {
    switch (state_kind_) {
        case State::kExecutingFlag:
            return frame.state != 0;
        case State::kFrameStateZero:
        case State::kStackTop:
            return state_kind_ == State::kStackTop ? frame.state >= 0 : frame.state == 0;
        case State::kStackPointer:
            return frame.state != 0;
    }
    return false;
}

}  // namespace pyprof
