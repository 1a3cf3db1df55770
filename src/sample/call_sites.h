// SPDX-License-Identifier: Apache-2.0
//
// At which instruction of its caller a function is called. A path can be real and a line in it false: the
// caller's frame is copied some hundred nanoseconds before or after the pointer to the leaf, and may have gone on
// to its next call meanwhile. Here is judged whether a caller's instruction belongs to the call that the
// sample shows. Where it can't be told, the caller is shown without a line rather than with a wrong one.
#pragma once

#include "python/frames.h"
#include "sample/stack_builder.h"
#include "sample/thread_reader.h"

#include <cstdint>
#include <vector>

namespace pyprof {

class CallSites {
public:
    explicit CallSites(const FrameShape& shape) : shape_(shape) {}

    // `chain` was built from `walk`, and its path is known to be real. The walk with the instructions that belong
    // together, kUnknownInstruction among them; nullptr when all stays as it is. Valid until the next call.
    const Walk* settle(ThreadReader& reader, const Walk& walk, const StackBuilder::Chain& chain);
    // Code objects have gone: instructions may be those of others now.
    void forget() { callees_.clear(); }

private:
    struct Site {
        std::uint64_t instruction = 0;  // of the caller, as it lies in its frame
        std::uint32_t sightings = 0;
        bool is_proved = false;
    };
    struct Callee {
        std::uint32_t sightings = 0;
        std::vector<Site> sites;

        [[nodiscard]] bool has_proved() const;
        [[nodiscard]] bool is_proved(std::uint64_t instruction) const;
    };
    struct Call {
        const RawFrame& caller;
        const RawFrame& callee;
        PathId path;  // of the callee
    };
    std::uint64_t instruction_of(ThreadReader& reader, const Call& call);
    static Site* note(Callee& callee, std::uint64_t instruction);

    // A call seen in both copies proves its site when it was seen so twice: one copy can be torn in itself.
    static constexpr std::uint32_t kProvingSightings = 2;
    // A site that each so many-th sample of its callee shows is no chance meeting of two moments either.
    static constexpr std::uint32_t kCommonShare = 32;
    static constexpr std::uint32_t kCommonSightings = 8;
    static constexpr std::size_t kMaxSites = 64;  // of one callee; further ones are shown as they are read

    const FrameShape& shape_;
    std::vector<Callee> callees_;  // by path
    Walk settled_;
};

}  // namespace pyprof
