// SPDX-License-Identifier: Apache-2.0
//
// src/greenlet of the releases 2.0 to 3.5: a PyGreenlet is {weak references, dict, pimpl}; the pimpl is a C++ object
// whose members move from release to release and with the interpreter's version. So they are told by what they are:
// one word of it is the greenlet itself (_self), one alone is a frame object, where it is suspended (_top_frame). Six
// words before that one stands what never moved apart from it: where on the C stack the greenlet begins and ends
// (stack_start, stack_stop). Behind it, and up to 3.0 behind _self, a greenlet that is not its thread's main one refers to
// that: of main, run, parent the first; a main one refers to a ThreadState, which begins with itself and the greenlet that
// runs (main_greenlet, current_greenlet).
#include "python/greenlets.h"

#include "python/objects.h"

#include <algorithm>
#include <array>

namespace pyprof {

namespace {

constexpr std::size_t kMostFrames = 1'024;
// The call that hands over is at the leaf, or one or two below it where a library wraps it.
constexpr std::size_t kInnermost = 4;
constexpr std::uint64_t kPimplAfterHeader = 16;
constexpr std::string_view kKeptCoroutine = "_coro";  // by the objects of aiosqlite, aiomysql and aiopg that can be awaited
constexpr std::size_t kStackStartBack = 6;  // words before the frame
constexpr std::size_t kStackStopBack = 5;
constexpr std::size_t kParentAfterMain = 2;
constexpr std::uint64_t kMainsStackStop = ~0ULL;

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
    return frames == 1 && selves > 0 && frame_word_ >= kStackStartBack;
}

void GreenletReader::learn_main(const Pimpl& words) {
    for (std::size_t i = frame_word_ + 1; i + kParentAfterMain < words.size(); ++i) {
        const Address word{words[i]};
        if (i == self_word_ || !can_be_object(word) || kinds_->kind_of(*probe_, word) != ObjectKind::kGreenlet) continue;
        const auto main = read_words(*probe_, word);
        if (main && (*main)[frame_word_ - kStackStopBack] == kMainsStackStop) main_word_ = i;
        return;
    }
}

std::optional<GreenletReader::Pimpl> GreenletReader::read_words(Memory& memory, Address greenlet) {
    const auto pimpl = read_pointer(memory, greenlet + layout_->object.header_size + kPimplAfterHeader);
    if (!pimpl || !can_be_object(*pimpl)) return std::nullopt;
    const auto words = read_value<Pimpl>(memory, *pimpl);
    if (!words) return std::nullopt;
    if (!knows_words_) knows_words_ = learn_words(*words, greenlet);
    if (!knows_words_ || Address{(*words)[self_word_]} != greenlet) return std::nullopt;
    return words;
}

bool GreenletReader::has_frame(Memory& memory, const Pimpl& words) {
    const Address frame{words[frame_word_]};
    return can_be_object(frame) && kinds_->kind_of(memory, frame) == ObjectKind::kFrame;
}

// The frame object of a suspended greenlet; null for any other.
Address GreenletReader::find_top_frame(Memory& memory, Address greenlet) {
    const auto words = read_words(memory, greenlet);
    return words && has_frame(memory, *words) ? Address{(*words)[frame_word_]} : kNullAddress;
}

Address GreenletReader::current_in(Memory& memory, Address state, Address main) const {
    const auto begin = can_be_object(state) ? read_value<std::array<std::uint64_t, 2>>(memory, state) : std::nullopt;
    if (!begin || Address{(*begin)[0]} != main) return kNullAddress;
    const Address current{(*begin)[1]};
    return can_be_object(current) && kinds_->kind_of(memory, current) == ObjectKind::kGreenlet ? current : kNullAddress;
}

Address GreenletReader::current_of(Memory& memory, Address main) {
    const auto words = read_words(memory, main);
    if (!words) return kNullAddress;
    for (std::size_t i = frame_word_ + 1; state_word_ == 0 && i < words->size(); ++i) {
        if (current_in(*probe_, Address{(*words)[i]}, main) != kNullAddress) state_word_ = i;
    }
    return state_word_ == 0 ? kNullAddress : current_in(memory, Address{(*words)[state_word_]}, main);
}

Greenlet GreenletReader::read(Memory& memory, Address greenlet) {
    Greenlet found;
    found.pimpl = read_pointer(memory, greenlet + layout_->object.header_size + kPimplAfterHeader).value_or(kNullAddress);
    const auto words = read_words(memory, greenlet);
    if (!words) {
        // Freed, it has lost its own part, or that is another one's by now: each refers to its greenlet for life.
        if (knows_words_) found.state = GreenletState::kEnded;
        return found;
    }
    const std::uint64_t start = (*words)[frame_word_ - kStackStartBack];
    const std::uint64_t stop = (*words)[frame_word_ - kStackStopBack];
    found.is_main = stop == kMainsStackStop;
    if (found.is_main) {
        found.main = greenlet;
    } else {
        if (main_word_ == 0) learn_main(*words);
        const Address main = main_word_ == 0 ? kNullAddress : Address{(*words)[main_word_]};
        const Address parent = main_word_ == 0 ? kNullAddress : Address{(*words)[main_word_ + kParentAfterMain]};
        const auto is_greenlet = [&](Address one) { return can_be_object(one) && kinds_->kind_of(memory, one) == ObjectKind::kGreenlet; };
        if (is_greenlet(main)) found.main = main;
        if (is_greenlet(parent)) found.parent = parent;
    }
    if (stop == 0) {
        found.state = GreenletState::kUnbegun;
    } else if (start == 0) {
        found.state = GreenletState::kEnded;
    } else if ((*words)[frame_word_] == 0) {
        const Address current = found.main == kNullAddress ? kNullAddress : current_of(memory, found.main);
        if (current != kNullAddress) found.state = current == greenlet ? GreenletState::kRunning : GreenletState::kFrameless;
    } else if (has_frame(memory, *words)) {
        found.state = GreenletState::kSuspended;
    }
    return found;
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

template <class IsAwaited>
Address GreenletReader::find_held(Memory& memory, const RawFrame& holder, IsAwaited&& is_awaited, std::vector<RawFrame>& frames) {
    frames.clear();
    read_locals(memory, *layout_, holder, locals_);
    for (const Address object : locals_) {
        if (!can_be_object(object) || kinds_->kind_of(memory, object) != ObjectKind::kGreenlet) continue;
        if (!read_frames(memory, object, frames)) continue;
        for (std::size_t i = 0; i < std::min(frames.size(), kInnermost); ++i) {
            read_locals(memory, *layout_, frames[i], inner_locals_);
            if (std::find_if(inner_locals_.begin(), inner_locals_.end(), is_awaited) == inner_locals_.end()) continue;
            std::reverse(frames.begin(), frames.end());
            return object;
        }
    }
    frames.clear();
    return kNullAddress;
}

Address GreenletReader::find_between(Memory& memory, const RawFrame& holder, Address awaited, std::vector<RawFrame>& frames) {
    frames.clear();
    if (!can_be_object(awaited)) return kNullAddress;
    const ObjectKind kind = kinds_->kind_of(memory, awaited);
    // `await` goes on to what __await__() gives: an iterator over the future, or over the coroutine that an object keeps, as
    // those of database drivers do.
    const bool is_wrapper = kind == ObjectKind::kAwaitWrapper;
    const Address inner = is_wrapper || kind == ObjectKind::kFutureIter
                              ? read_pointer(memory, awaited + layout_->object.header_size).value_or(kNullAddress)
                              : kNullAddress;
    const auto is_awaited = [&](Address object) {
        if (!can_be_object(object)) return false;
        if (object == awaited || object == inner) return true;
        return is_wrapper && read_attribute(memory, *layout_, object, kKeptCoroutine) == inner;
    };
    return find_held(memory, holder, is_awaited, frames);
}

Address GreenletReader::find_between_frames(Memory& memory, const RawFrame& holder, Address awaited_frame, std::vector<RawFrame>& frames) {
    const auto frame_of = [&](Address coroutine) {  // an object of its own up to 3.10
        const Address frame = coroutine + at(layout_->generator.frame);
        return has(layout_->generator.frame_state) ? frame : read_pointer(memory, frame).value_or(kNullAddress);
    };
    const auto is_its_coroutine = [&](Address object, ObjectKind kind) { return kind == ObjectKind::kCoroutine && frame_of(object) == awaited_frame; };
    const auto is_awaited = [&](Address object) {
        if (!can_be_object(object)) return false;
        const ObjectKind kind = kinds_->kind_of(memory, object);
        if (kind != ObjectKind::kOther) return is_its_coroutine(object, kind);
        const Address kept = read_attribute(memory, *layout_, object, kKeptCoroutine).value_or(kNullAddress);
        return can_be_object(kept) && is_its_coroutine(kept, kinds_->kind_of(memory, kept));
    };
    return find_held(memory, holder, is_awaited, frames);
}

bool GreenletReader::find_callers(Memory& memory, Address main, std::vector<RawFrame>& frames) {
    const Address runs = current_of(memory, main);
    if (runs == kNullAddress || runs == main || read(memory, runs).parent != main || !read_frames(memory, main, frames)) return false;
    for (std::size_t i = 0; i < std::min(frames.size(), kInnermost); ++i) {
        read_locals(memory, *layout_, frames[i], locals_);
        if (std::find(locals_.begin(), locals_.end(), runs) != locals_.end()) return true;
    }
    return false;
}

}  // namespace pyprof
