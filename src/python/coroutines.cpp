// SPDX-License-Identifier: Apache-2.0
//
// What _PyGen_yf (Objects/genobject.c) does, from outside. A generator that yields while it iterates has an
// iterator on top of its stack, as one that awaits has the awaited object: only the state (3.13 on) or the
// next instruction (before) tells them apart.
#include "python/coroutines.h"

#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

bool has_frame(ObjectKind kind) {
    return kind == ObjectKind::kCoroutine || kind == ObjectKind::kGenerator || kind == ObjectKind::kAsyncGenerator;
}

constexpr std::int64_t kMostStackWords = 1 << 20;

}  // namespace

CoroutineReader::CoroutineReader(const Layout& layout, const CoroutineLayout& coroutine, ObjectKinds& kinds)
    : layout_(&layout), coroutine_(coroutine), kinds_(&kinds), shape_(layout) {
    const std::size_t frame_bytes = shape_.begin() + shape_.bytes();
    copy_.resize(at(std::max(layout.generator.frame, 0)) + std::max<std::size_t>(frame_bytes, layout.frame.size) + 8);
}

Address CoroutineReader::own_frame(Address coroutine) const {
    if (coroutine_.state_kind != CoroutineStateKind::kCoroutineState) return kNullAddress;
    return coroutine + at(layout_->generator.frame);
}

CoroutineState CoroutineReader::state_of(std::int32_t value) const {
    if (value == coroutine_.executing) return CoroutineState::kExecuting;
    if (value == coroutine_.created) return CoroutineState::kCreated;
    if (value == coroutine_.awaiting || value == coroutine_.awaiting_locked) return CoroutineState::kAwaiting;
    if (value == coroutine_.suspended) return CoroutineState::kSuspended;
    constexpr std::int32_t kMostStates = 8;
    return value > coroutine_.executing && value < kMostStates ? CoroutineState::kFinished : CoroutineState::kInvalid;
}

// Up to 3.10 the code's instructions are a bytes object, and the frame holds an index into them.
bool CoroutineReader::stands_at_await(Memory& memory, const RawFrame& frame) const {
    if (coroutine_.yield_from == 0) {
        const auto next = read_value<std::array<std::uint8_t, 2>>(memory, Address{frame.instruction} + 2);
        if (!next || (*next)[0] == 0) return false;
        const bool is_resume = std::find(std::begin(coroutine_.resume), std::end(coroutine_.resume), (*next)[0]) !=
                               std::end(coroutine_.resume);
        return is_resume && ((*next)[1] & 3U) >= 2;
    }
    const auto bytecode = read_pointer(memory, frame.code + at(layout_->code.bytecode));
    if (!bytecode || !can_be_object(*bytecode)) return false;
    const auto size = read_value<std::int64_t>(memory, *bytecode + at(layout_->bytes.size));
    const bool in_units = layout_->instruction_kind == InstructionKind::kCodeUnitIndex;
    const auto index = static_cast<std::int64_t>(frame.instruction);
    constexpr std::int64_t kMostBytes = 1 << 26;
    if (!size || index < 0 || index > kMostBytes) return false;
    const std::int64_t next = in_units ? (index + 1) * 2 : index + 2;
    if (next >= *size) return false;
    const auto opcode =
        read_value<std::uint8_t>(memory, *bytecode + at(layout_->bytes.data) + static_cast<std::uint64_t>(next));
    return opcode && *opcode == coroutine_.yield_from;
}

bool CoroutineReader::read_heap_node(Memory& memory, Address object, Node& node) {
    const auto frame = read_pointer(memory, object + at(layout_->generator.frame));
    if (!frame) return false;
    if (*frame == kNullAddress) {
        node.state = CoroutineState::kFinished;
        return true;
    }
    if (!can_be_object(*frame)) return false;
    // The stack top lies before the fields of a walk, the locals behind them.
    const std::span<std::byte> copy = std::span(copy_).first(layout_->frame.size);
    if (copy.size() < shape_.begin() + shape_.bytes() || !read_bytes(memory, *frame, copy)) return false;
    const FrameShape::Parsed parsed = shape_.parse(copy.data() + shape_.begin(), *frame);
    if (!parsed.is_valid) return false;
    node.frame = parsed.frame;
    node.frame.of_generator = true;
    node.frame.through_c = false;
    const auto index = static_cast<std::int64_t>(node.frame.instruction);
    if (coroutine_.state_kind == CoroutineStateKind::kFrameState) {
        node.state = state_of(static_cast<std::int32_t>(node.frame.state));
        const auto stack = load<std::uint64_t>(copy.data(), at(coroutine_.value_stack));
        const auto depth = load<std::int32_t>(copy.data(), at(coroutine_.stack_depth));
        if (depth > 0 && depth < kMostStackWords) {
            node.awaited_slot = Address{stack} + static_cast<std::uint64_t>(depth - 1) * 8;
        }
        return true;
    }
    const auto is_running = read_value<std::uint8_t>(memory, object + at(coroutine_.running));
    if (!is_running) return false;
    const auto top = load<std::uint64_t>(copy.data(), at(coroutine_.stack_top));
    node.state = *is_running != 0 ? CoroutineState::kExecuting
                 : index == -1    ? CoroutineState::kCreated
                                  : CoroutineState::kAwaiting;
    if (top != 0) node.awaited_slot = Address{top} - 8;
    return true;
}

bool CoroutineReader::read_embedded_node(Memory& memory, Address object, Node& node) {
    const std::span<std::byte> copy = std::span(copy_).first(at(layout_->generator.frame) + layout_->frame.size);
    // Not the reference count, which changes while the coroutine stays where it is.
    const auto header = layout_->object.header_size;
    if (!read_bytes(memory, object + header, copy.subspan(header))) return false;
    node.state = state_of(load<std::int8_t>(copy.data(), at(layout_->generator.frame_state)));
    if (node.state == CoroutineState::kFinished || node.state == CoroutineState::kInvalid) return true;
    const Address frame = own_frame(object);
    const std::byte* frame_copy = copy.data() + at(layout_->generator.frame);
    const FrameShape::Parsed parsed = shape_.parse(frame_copy + shape_.begin(), frame);
    if (!parsed.is_valid || parsed.is_shim || !parsed.frame.of_generator) return false;
    node.frame = parsed.frame;
    node.frame.through_c = false;
    if (coroutine_.awaited_place == AwaitedPlace::kLocalsPlus) {
        const std::int64_t top = parsed.frame.state;
        if (top > 0 && top < kMostStackWords) {
            node.awaited_slot = frame + at(layout_->frame.localsplus) + static_cast<std::uint64_t>(top - 1) * 8;
        }
        return true;
    }
    const auto pointer = static_cast<std::uint64_t>(parsed.frame.state);
    const Address slot = Address{pointer} - coroutine_.awaited_back * std::uint64_t{8};
    const Address locals = frame + at(layout_->frame.localsplus);
    if (is_within(slot, locals, locals + static_cast<std::uint64_t>(kMostStackWords) * 8)) node.awaited_slot = slot;
    return true;
}

bool CoroutineReader::read_node(Memory& memory, Address object, Node& node) {
    const bool is_embedded = coroutine_.state_kind == CoroutineStateKind::kCoroutineState;
    if (!(is_embedded ? read_embedded_node(memory, object, node) : read_heap_node(memory, object, node))) return false;
    if (node.state == CoroutineState::kInvalid) return false;
    if (node.state == CoroutineState::kAwaiting && coroutine_.needs_opcode && !stands_at_await(memory, node.frame)) {
        node.state = CoroutineState::kSuspended;
    }
    return true;
}

void CoroutineReader::read_chain(Memory& memory, Address coroutine, CoroutineChain& chain) {
    using End = CoroutineChain::End;
    chain.frames.clear();
    chain.objects.clear();
    chain.main_greenlet = kNullAddress;
    chain.awaited = coroutine;
    for (std::size_t hop = 0; hop < 2 * kMostFrames; ++hop) {
        chain.awaited_kind = kinds_->kind_of(memory, chain.awaited);
        if (chain.awaited_kind == ObjectKind::kAwaitWrapper || chain.awaited_kind == ObjectKind::kFutureIter) {
            const auto inner = read_pointer(memory, chain.awaited + layout_->object.header_size);
            if (!inner) break;
            const bool is_last = chain.awaited_kind == ObjectKind::kFutureIter;
            chain.awaited = *inner;
            if (!is_last) continue;
            chain.awaited_kind = *inner == kNullAddress ? ObjectKind::kNone : kinds_->kind_of(memory, *inner);
            chain.end = End::kAwaitable;
            return;
        }
        if (!has_frame(chain.awaited_kind)) {
            chain.end = chain.awaited_kind == ObjectKind::kUnreadable ? End::kTorn : End::kAwaitable;
            return;
        }
        if (chain.frames.size() >= kMostFrames ||
            std::find(chain.objects.begin(), chain.objects.end(), chain.awaited) != chain.objects.end()) {
            chain.end = End::kEndless;
            return;
        }
        Node node;
        if (!read_node(memory, chain.awaited, node)) break;
        if (node.state == CoroutineState::kFinished) {
            chain.end = chain.frames.empty() ? End::kFinished : End::kTorn;
            return;
        }
        chain.frames.push_back(node.frame);
        chain.objects.push_back(chain.awaited);
        chain.awaited = kNullAddress;
        chain.awaited_kind = ObjectKind::kUnreadable;
        if (node.state != CoroutineState::kAwaiting || node.awaited_slot == kNullAddress) {
            chain.end = node.state == CoroutineState::kExecuting ? End::kExecuting
                        : node.state == CoroutineState::kCreated ? End::kCreated
                                                                 : End::kYield;
            return;
        }
        const auto awaited = read_pointer(memory, node.awaited_slot);
        if (!awaited) break;
        chain.awaited = Address{raw(*awaited) & layout_->pointer_mask};
        if (greenlets_ == nullptr) continue;
        const Address greenlet = greenlets_->find_between(memory, node.frame, chain.awaited, between_);
        chain.frames.insert(chain.frames.end(), between_.begin(), between_.end());
        chain.objects.insert(chain.objects.end(), between_.size(), kNullAddress);
        if (greenlet != kNullAddress) chain.main_greenlet = greenlets_->read(memory, greenlet).main;
    }
    chain.end = End::kTorn;
}

}  // namespace pyprof
