// SPDX-License-Identifier: Apache-2.0
//
// src/greenlet of the releases 2.0 to 3.5: a PyGreenlet is {weak references, dict, pimpl}; the pimpl is a C++ object
// whose members move from release to release and with the interpreter's version. So they are told by what they are:
// one word of it is the greenlet itself (_self), one alone is a frame object, where it is suspended (_top_frame).
#include "python/greenlets.h"

#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kMostFrames = 1'024;
// The call that hands over is at the leaf, or one or two below it where a library wraps it.
constexpr std::size_t kInnermost = 4;

}  // namespace

bool GreenletReader::learn_words(const Pimpl& words, Address greenlet) {
    std::size_t frames = 0;
    std::size_t selves = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const Address word{words[i]};
        if (word == greenlet && selves++ == 0) self_word_ = i;
        if (!can_be_object(word) || kinds_->kind_of(*probe_, word) != ObjectKind::kFrame) continue;
        frame_word_ = i;
        ++frames;
    }
    return frames == 1 && selves > 0;
}

// The frame object of a suspended greenlet; null for any other.
Address GreenletReader::find_top_frame(Memory& memory, Address greenlet) {
    const auto pimpl = read_pointer(memory, greenlet + layout_->object.header_size + 16);
    if (!pimpl || !can_be_object(*pimpl)) return kNullAddress;
    const auto words = read_value<Pimpl>(memory, *pimpl);
    if (!words) return kNullAddress;
    if (!knows_words_) knows_words_ = learn_words(*words, greenlet);
    if (!knows_words_ || Address{(*words)[self_word_]} != greenlet) return kNullAddress;
    const Address frame{(*words)[frame_word_]};
    return can_be_object(frame) && kinds_->kind_of(memory, frame) == ObjectKind::kFrame ? frame : kNullAddress;
}

bool GreenletReader::read_frames(Memory& memory, Address greenlet, std::vector<RawFrame>& frames) {
    frames.clear();
    const Address top = find_top_frame(memory, greenlet);
    if (top == kNullAddress) return false;
    Address address = top;
    // From 3.11 on a frame object refers to the frame proper behind f_back.
    if (has(layout_->frame.owner)) {
        address = read_pointer(memory, top + layout_->object.header_size + 8).value_or(kNullAddress);
    }
    copy_.resize(shape_.bytes());
    while (address != kNullAddress) {
        if (!can_be_object(address) || frames.size() >= kMostFrames) return false;
        if (!read_bytes(memory, address + shape_.begin(), copy_)) return false;
        const FrameShape::Parsed parsed = shape_.parse(copy_.data(), address);
        if (!parsed.is_valid || parsed.back == address) return false;
        if (!parsed.is_shim) {
            frames.push_back(parsed.frame);
            frames.back().through_c = false;
        }
        address = parsed.back;
    }
    return !frames.empty();
}

void GreenletReader::find_between(Memory& memory, const RawFrame& holder, Address awaited, std::vector<RawFrame>& frames) {
    frames.clear();
    if (!can_be_object(awaited)) return;
    read_locals(memory, *layout_, holder, locals_);
    for (const Address object : locals_) {
        if (!can_be_object(object) || kinds_->kind_of(memory, object) != ObjectKind::kGreenlet) continue;
        if (!read_frames(memory, object, frames)) continue;
        for (std::size_t i = 0; i < std::min(frames.size(), kInnermost); ++i) {
            read_locals(memory, *layout_, frames[i], inner_locals_);
            if (std::find(inner_locals_.begin(), inner_locals_.end(), awaited) == inner_locals_.end()) continue;
            std::reverse(frames.begin(), frames.end());
            return;
        }
    }
    frames.clear();
}

}  // namespace pyprof
