// SPDX-License-Identifier: Apache-2.0
//
// One frame as it lies in copied bytes, and the walk from a leaf to the root over such copies. Nothing
// here reads the target: the caller says where the bytes of an address are. A walk is bounded and ends
// with the reason why it ended; whether the chain was ever a real stack is for sample/ to decide.
#pragma once

#include <pyprof/error.h>
#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <cstdint>
#include <vector>

namespace pyprof {

// In place of an instruction that could not be told: no frame holds it.
constexpr std::uint64_t kUnknownInstruction = 1ULL << 63;

struct RawFrame {
    Address address{};
    Address code{};
    std::uint64_t instruction = 0;  // as Layout::instruction_kind says
    std::int64_t state = 0;         // stacktop, stackpointer or the executing flag: FrameShape::is_suspended
    bool through_c = false;         // C code stands between this frame and its caller
    bool of_generator = false;      // owned by a generator or coroutine object (3.11 on)

    // The same frame at the same instruction, whatever its value stack does.
    friend bool operator==(const RawFrame& a, const RawFrame& b) {
        return a.address == b.address && a.code == b.code && a.instruction == b.instruction &&
               a.through_c == b.through_c;
    }
};

// What a frame copy must cover and where its fields lie in it; made once from a Layout.
class FrameShape {
public:
    explicit FrameShape(const Layout& layout);

    // A copy of a frame at address F covers [F + begin(), F + begin() + bytes()).
    [[nodiscard]] std::uint32_t begin() const { return begin_; }
    [[nodiscard]] std::uint32_t bytes() const { return bytes_; }
    [[nodiscard]] bool on_data_stack() const { return on_data_stack_; }

    struct Link {
        Address back{};
        bool is_shim = false;   // entry frame on the C stack, no frame of the program (3.12 on)
        bool is_valid = true;   // owner within its range, a code pointer that can be one
        bool is_entry = false;  // C code called the eval loop for this frame (3.11)
    };
    struct Parsed : Link {
        RawFrame frame;
    };
    [[nodiscard]] Link parse(const std::byte* copy, Address address, RawFrame& frame) const;
    [[nodiscard]] Parsed parse(const std::byte* copy, Address address) const;

    // True for a frame whose own state says that it waits for the frame above it. Up to 3.10 every
    // caller executes; 3.11 to 3.13 store the value stack's top on a call; 3.14 on its pointer.
    [[nodiscard]] bool is_suspended(const RawFrame& frame) const;
    // Popped frames lose code and caller at once (3.14 on): an intact frame is a live one.
    [[nodiscard]] bool clears_popped_frames() const { return clears_popped_; }

private:
    // User addresses on x86-64 and aarch64 lie below 2^47 and 2^48; a code object is 8-byte aligned.
    static bool can_be_code(std::uint64_t pointer) {
        return pointer >= 4096 && pointer < (1ULL << 48) && (pointer & 7) == 0;
    }

    std::uint32_t begin_ = 0;
    std::uint32_t bytes_ = 0;
    std::uint32_t back_ = 0;
    std::uint32_t code_ = 0;
    std::uint32_t instruction_ = 0;
    std::uint32_t state_ = 0;
    std::uint32_t owner_ = 0;
    std::uint32_t is_entry_ = 0;
    std::uint64_t pointer_mask_ = ~0ULL;
    std::int32_t owner_generator_ = kAbsent;
    std::int32_t owner_cstack_ = kAbsent;
    std::int32_t owner_interpreter_ = kAbsent;
    std::int32_t owner_last_ = kAbsent;
    enum class State : std::uint8_t { kExecutingFlag, kFrameStateZero, kStackTop, kStackPointer } state_kind_;
    bool instruction_is_int_ = false;
    bool on_data_stack_ = false;
    bool has_is_entry_ = false;
    bool clears_popped_ = false;
};

// Here, and inlined, since every frame of every sample goes through it; written in place, since what was just stored in
// small pieces is loaded slowly as a whole.
[[gnu::always_inline]] inline FrameShape::Link FrameShape::parse(const std::byte* copy, Address address, RawFrame& frame) const {
    Link link;
    link.back = Address{load<std::uint64_t>(copy, back_)};
    const std::uint64_t code = load<std::uint64_t>(copy, code_) & pointer_mask_;
    frame.address = address;
    frame.code = Address{code};
    frame.instruction = instruction_is_int_
                            ? static_cast<std::uint64_t>(static_cast<std::int64_t>(load<std::int32_t>(copy, instruction_)))
                            : load<std::uint64_t>(copy, instruction_);
    switch (state_kind_) {
        case State::kExecutingFlag:
        case State::kFrameStateZero:
            frame.state = load<std::int8_t>(copy, state_);
            break;
        case State::kStackTop:
            frame.state = load<std::int32_t>(copy, state_);
            break;
        case State::kStackPointer:
            frame.state = static_cast<std::int64_t>(load<std::uint64_t>(copy, state_));
            break;
    }
    frame.of_generator = false;
    if (owner_last_ != kAbsent) {
        const auto owner = static_cast<std::int32_t>(load<std::int8_t>(copy, owner_));
        link.is_valid = owner >= 0 && owner <= owner_last_;
        link.is_shim = (owner_cstack_ != kAbsent && owner == owner_cstack_) ||
                       (owner_interpreter_ != kAbsent && owner == owner_interpreter_);
        frame.of_generator = owner == owner_generator_;
    }
    link.is_entry = !on_data_stack_ || (has_is_entry_ && load<std::uint8_t>(copy, is_entry_) != 0);
    frame.through_c = link.is_entry;  // up to 3.10 every frame has an eval loop of its own
    if (!link.is_shim && !can_be_code(code)) link.is_valid = false;
    return link;
}

inline FrameShape::Parsed FrameShape::parse(const std::byte* copy, Address address) const {
    Parsed parsed;
    static_cast<Link&>(parsed) = parse(copy, address, parsed.frame);
    return parsed;
}

enum class WalkEnd : std::uint8_t {
    kRoot,        // the thread's outermost frame was reached
    kUnreadable,  // the bytes of a frame could not be had
    kInvalid,     // what stood there is no frame
    kEndless,     // longer than any stack: a cycle
    kGenerator,   // ended at a generator's frame, whose caller is gone
};

// Frames to keep of one stack; the middle of a longer one is cut (kCutMarker frames in sample/).
constexpr std::size_t kMaxFrames = 20'000;
// Steps after which a chain is taken for a cycle.
constexpr std::size_t kMaxSteps = 400'000;

struct WalkLimits {
    Address base_frame{};   // 3.15: the sentinel that ends every thread's chain; null elsewhere
    Address root_shim{};    // entry frame known to be the thread's first; null where not known
};

// An entry frame: the object by which C code made frames run, on the C stack (3.12 on).
struct WalkEntry {
    Address address{};
    std::uint32_t frames = 0;  // of the walk that lie above it, nearer to the leaf
};

struct Walk {
    std::vector<RawFrame> frames;  // leaf first
    WalkEnd end = WalkEnd::kUnreadable;
    std::vector<WalkEntry> entries;
    std::vector<Address> off_stack;  // entry frames and generators' frames: not on the data stack
    std::size_t steps = 0;
};

// `find(address)` returns the copy of the frame at `address` (FrameShape::begin() already applied) or
// nullptr. Never fails; the reason to end is in walk.end.
template <class Find>
void walk_frames(const FrameShape& shape, Address leaf, const WalkLimits& limits, Find&& find, Walk& walk) {
    walk.frames.clear();
    walk.off_stack.clear();
    walk.entries.clear();
    walk.steps = 0;
    Address address = leaf;
    Address milestone{};  // Brent: a cycle comes back to it before the next one is set
    std::size_t next_milestone = 64;
    bool ends_in_c = false;
    while (true) {
        if (address == kNullAddress || address == limits.base_frame) break;
        if (++walk.steps > kMaxSteps || address == milestone) {
            walk.end = WalkEnd::kEndless;
            return;
        }
        if (walk.steps == next_milestone) {
            milestone = address;
            next_milestone *= 2;
        }
        const std::byte* copy = find(address);
        if (copy == nullptr) {
            walk.end = WalkEnd::kUnreadable;
            return;
        }
        RawFrame& frame = walk.frames.emplace_back();
        const FrameShape::Link link = shape.parse(copy, address, frame);
        if (!link.is_valid || link.back == address) {
            walk.frames.pop_back();
            walk.end = WalkEnd::kInvalid;
            return;
        }
        ends_in_c = link.is_shim;
        if (link.is_shim || frame.of_generator) walk.off_stack.push_back(address);
        if (link.is_shim) {
            walk.frames.pop_back();
            walk.entries.push_back({address, static_cast<std::uint32_t>(walk.frames.size())});
            if (!walk.frames.empty()) walk.frames.back().through_c = true;
        }
        address = link.back;
    }
    walk.end = WalkEnd::kRoot;
    if (walk.frames.empty()) return;
    // C code made a thread's outermost frame run. One that has no caller and was not entered from C is not
    // the outermost: a generator's frame loses its caller when it yields, one of 3.14 when it is popped.
    const RawFrame& outermost = walk.frames.back();
    if (outermost.of_generator && !ends_in_c) walk.end = WalkEnd::kGenerator;
    if (!outermost.of_generator && !outermost.through_c) walk.end = WalkEnd::kInvalid;
}

}  // namespace pyprof
