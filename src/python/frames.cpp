// SPDX-License-Identifier: Apache-2.0
#include "python/frames.h"

#include <algorithm>

namespace pyprof {

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
