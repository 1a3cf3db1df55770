// SPDX-License-Identifier: Apache-2.0
//
// What a torn sample can still tell. The pointer to the leaf is exact; the frames were copied a moment after it, perhaps a
// moment before it, too, and neither copy alone need be the stack of that moment. Two ways lead to
// a stack that can be: frames that were popped and cleared meanwhile (3.14 on) are known again by
// what stays of them, and the two copies are joined, callers of one and callees of the other. A mended
// stack counts only when its whole path was proved before: it is one that was real at some time, with every
// frame seen within a microsecond of the sample. When two such stacks fit, none is taken.
#pragma once

#include "python/code_cache.h"
#include "python/frames.h"
#include "sample/thread_reader.h"

#include <vector>

namespace pyprof {

class Mender {
public:
    Mender(const FrameShape& shape, CodeCache& codes, StackTable& stacks)
        : shape_(shape), codes_(codes), stacks_(stacks) {}

    // The mended walk, or nullptr. Valid until the next call. rebuild() takes the copy behind the pointer alone, mend() both.
    const Walk* rebuild(ThreadReader& reader);
    const Walk* mend(ThreadReader& reader);

private:
    bool rebuild(ThreadReader& reader, bool before, Walk& walk);
    bool join(ThreadReader& reader);
    [[nodiscard]] bool is_proved(const std::vector<RawFrame>& leaf_first) const;

    // Where to try to join two copies: how many frames above the first that differs.
    static constexpr std::size_t kMaxJoins = 32;

    const FrameShape& shape_;
    CodeCache& codes_;
    StackTable& stacks_;
    Walk walk_;
    Walk base_;
    std::vector<RawFrame> earlier_;  // root first
    std::vector<RawFrame> joined_;
};

}  // namespace pyprof
