// SPDX-License-Identifier: Apache-2.0
//
// When a path is known to have been real. The target runs on while it is read, so a chain can be put
// together from two moments. A path (the chain of code objects from the root) is believed once it was
// proved; the rule, its reasons and its limits are in docs/how-it-works.md.
//
// The proof: the frames are copied before and after a pointer to the leaf. A caller that is the same
// in both copies, and whose own state says that it waits for the frame above it, was there at the moment
// between. From the root, the frames for which this holds are a real path, and so, seen as often as a single delay
// can't show it, is what stood above them in the earlier copy. The inline cache of a call proves a callee only where the caller is reached by
// one known path alone: a site with several callees may name another than the one that was called.
#pragma once

#include <pyprof/memory.h>

#include "python/code_cache.h"
#include "python/frames.h"
#include "python/opcodes.h"
#include "sample/stack_builder.h"
#include "sample/thread_reader.h"

#include <tsl/robin_map.h>

#include <cstdint>
#include <vector>

namespace pyprof {

class PathProver {
public:
    PathProver(Memory& memory, const Layout& layout, const FrameShape& shape, CodeCache& codes, StackTable& stacks,
               StackBuilder& builder);

    // `chain` was built from `walk`, one of the reader's two. Proves what can be proved of it; true when its whole path is.
    bool prove(ThreadReader& reader, const Walk& walk, const StackBuilder::Chain& chain);
    // As if the last call had found nothing.
    void forget_last() {
        standing_ = {};
        earlier_callee_ = kNoCode;
    }
    // What the last call found of the sample itself: so many frames, from the root, stood there when the pointer between the
    // copies was read. The last of them may have moved between the copies: then its line is not known.
    struct Standing {
        std::size_t frames = 0;
        bool has_moved = false;
    };
    [[nodiscard]] Standing standing() const { return standing_; }

    // The code of the earlier copy that the last call proved above one of the chain's, else kNoCode.
    [[nodiscard]] CodeIndex earlier_callee() const { return earlier_callee_; }
    [[nodiscard]] std::uint64_t proofs() const { return proofs_; }

private:
    struct Site {  // what the bytecode says at a caller's instruction
        Opcodes::Waiting waiting;
        // Whether it can push or resume a Python frame without going through C.
        [[nodiscard]] bool is_call() const { return waiting.in_call || waiting.in_generator; }
        std::uint32_t function_version = 0;  // that the inline cache of a call names, 3.12 on
    };
    std::size_t find_in_both(ThreadReader& reader, const Walk& walk, std::size_t count);
    void read_sites(const Walk& walk, std::size_t count);
    [[nodiscard]] bool is_waiting(const RawFrame& before, const RawFrame& after, std::size_t depth,
                                  const StackBuilder::Chain& chain) const;
    [[nodiscard]] bool is_live(const RawFrame& frame, std::size_t depth, const StackBuilder::Chain& chain,
                               std::uint64_t site) const;
    [[nodiscard]] bool can_stand_above(const RawFrame& callee, std::size_t depth) const;
    [[nodiscard]] bool is_in_order(const ThreadReader& reader, const RawFrame& frame, CodeIndex code);
    void prove_earlier_callee(ThreadReader& reader, const RawFrame& caller, std::size_t depth,
                              const StackBuilder::Step& step);
    void extend_by_sole_callers(const Walk& walk, const StackBuilder::Chain& chain);
    bool enough_sightings(PathId path, std::uint8_t wanted);
    [[nodiscard]] std::uint8_t sightings_for(const Site& site, CodeIndex callee) const;

    // What one pair of copies may show by a rare chance must be seen this often before it is believed: a caller that waits in C
    // code, which carries no mark of its own on 3.11 to 3.13, and a callee of the earlier copy alone.
    static constexpr std::uint8_t kSightings = 3;
    static constexpr std::uint8_t kSightingsAgainstCache = 8;  // the call's inline cache names another one
    // Accepted samples after which a code with one known path is taken to have no other.
    static constexpr std::uint32_t kSoleSightings = 24;
    static constexpr std::size_t kMaxSightings = 1U << 16;

    Memory& memory_;
    const FrameShape& shape_;
    CodeCache& codes_;
    StackTable& stacks_;
    StackBuilder& builder_;
    const Opcodes* opcodes_;
    std::vector<RawFrame> earlier_;  // root first: the frames that are the same in both copies, as each holds them
    std::vector<RawFrame> later_;
    std::vector<Site> sites_;  // root first
    Address next_frame_{};  // where the data stack's next frame must stand; null where that is not known
    std::vector<std::byte> site_bytes_;
    std::vector<ReadRange> ranges_;
    tsl::robin_map<std::uint32_t, std::uint8_t> sightings_;
    CodeIndex earlier_callee_ = kNoCode;
    Standing standing_;
    std::uint64_t proofs_ = 0;
};

}  // namespace pyprof
