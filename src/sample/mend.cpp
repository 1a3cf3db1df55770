// SPDX-License-Identifier: Apache-2.0
#include "sample/mend.h"

#include <algorithm>

namespace pyprof {

bool Mender::is_proved(const std::vector<RawFrame>& leaf_first) const {
    PathId path = kRootPath;
    for (auto frame = leaf_first.rbegin(); frame != leaf_first.rend(); ++frame) {
        const CodeIndex code = codes_.find(frame->code);
        if (code == kNoCode || !codes_.instruction_index(code, frame->instruction)) return false;
        if (codes_.entry(code).is_hidden) continue;  // no path has it
        const auto child = stacks_.find_path(path, codes_.entry(code).identity);
        if (!child || !stacks_.is_proved(*child)) return false;
        path = *child;
    }
    return true;
}

// Frames stand one behind the other in the chunk, each as long as its code says. A cleared one keeps its
// instruction pointer, and that lies in its code.
bool Mender::rebuild(ThreadReader& reader, bool before, Walk& walk) {
    const Address leaf = reader.leaf();
    Address address = reader.chunk_begin();
    if (address == kNullAddress || raw(leaf) < raw(address)) return false;
    const std::byte* copy = reader.copy_of(address, before);
    if (copy == nullptr) return false;
    FrameShape::Parsed parsed = shape_.parse(copy, address);
    if (!parsed.is_valid) return false;
    walk_frames(shape_, parsed.back, reader.limits(), [&](Address a) { return reader.copy_of(a, before); }, base_);
    if (base_.end != WalkEnd::kRoot) return false;

    walk.frames.clear();  // root first, for now
    Address below = base_.frames.empty() ? kNullAddress : base_.frames.front().address;
    while (true) {
        CodeIndex code = codes_.find(parsed.frame.code);
        if (parsed.is_valid && code != kNoCode) {
            // An intact frame says itself who called it: the frame below, or C code called by that.
            const std::byte* back = parsed.back == below ? nullptr : reader.copy_of(parsed.back, before);
            if (back != nullptr) {
                const FrameShape::Parsed shim = shape_.parse(back, parsed.back);
                if (!shim.is_shim || (shim.back != below && below != kNullAddress)) return false;
                parsed.frame.through_c = true;
            } else if (parsed.back != below && below != kNullAddress) {
                return false;
            }
        } else {
            code = codes_.find_by_instruction(Address{parsed.frame.instruction});
            if (code == kNoCode) return false;
            parsed.frame.code = codes_.entry(code).address;
        }
        walk.frames.push_back(parsed.frame);
        if (address == leaf) break;
        const std::uint64_t words = codes_.entry(code).frame_words;
        below = address;
        address = address + 8 * words;
        copy = words == 0 || raw(address) > raw(leaf) ? nullptr : reader.copy_of(address, before);
        if (copy == nullptr || walk.frames.size() >= kMaxFrames) return false;
        parsed = shape_.parse(copy, address);
    }
    std::reverse(walk.frames.begin(), walk.frames.end());
    walk.frames.insert(walk.frames.end(), base_.frames.begin(), base_.frames.end());
    walk.end = WalkEnd::kRoot;
    return is_proved(walk.frames);
}

// Both orders: the later copy's callers under the earlier one's callees, and the other way round.
bool Mender::join(ThreadReader& reader) {
    const Walk& after = reader.walk();
    const std::size_t count = after.frames.size();
    if (after.end != WalkEnd::kRoot || count > kMaxFrames) return false;
    const auto later = [&](std::size_t depth) -> const RawFrame& { return after.frames[count - 1 - depth]; };
    earlier_.clear();
    std::size_t differs = count;
    for (std::size_t depth = 0; depth < count; ++depth) {
        const auto frame = reader.frame_in(later(depth).address, depth == 0 ? kNullAddress : later(depth - 1).address, true);
        if (!frame) break;
        if (differs == count && frame->code != later(depth).code) differs = depth;
        earlier_.push_back(*frame);
    }
    if (differs == count) return false;

    bool found = false;
    const auto consider = [&] {
        if (!is_proved(joined_)) return true;
        const auto same_codes = [&] {
            return std::equal(joined_.begin(), joined_.end(), walk_.frames.begin(), walk_.frames.end(),
                              [](const RawFrame& a, const RawFrame& b) { return a.code == b.code; });
        };
        if (found && !same_codes()) return false;  // two fit
        walk_.frames = joined_;
        found = true;
        return true;
    };
    for (std::size_t split = differs; split <= std::min(count, differs + kMaxJoins); ++split) {
        if (earlier_.size() == count) {
            joined_ = after.frames;  // callers of the later copy up to `split`, callees of the earlier one
            for (std::size_t depth = split; depth < count; ++depth) joined_[count - 1 - depth] = earlier_[depth];
            if (!consider()) return false;
        }
        if (split > earlier_.size()) continue;
        joined_ = after.frames;
        for (std::size_t depth = differs; depth < split; ++depth) joined_[count - 1 - depth] = earlier_[depth];
        if (!consider()) return false;
    }
    walk_.end = WalkEnd::kRoot;
    return found;
}

const Walk* Mender::rebuild(ThreadReader& reader) {
    const bool can_be = shape_.on_data_stack() && shape_.clears_popped_frames();
    return can_be && rebuild(reader, false, walk_) ? &walk_ : nullptr;
}

const Walk* Mender::mend(ThreadReader& reader) {
    if (!shape_.on_data_stack()) return nullptr;
    if (const Walk* own = rebuild(reader)) return own;
    if (shape_.clears_popped_frames() && rebuild(reader, true, walk_)) return &walk_;
    return join(reader) ? &walk_ : nullptr;
}

}  // namespace pyprof
