// SPDX-License-Identifier: Apache-2.0
//
// Turns a walked chain into a stack of the profile's trie. Each thread keeps its last chain, so that a
// sample which equals it costs a compare, and one that shares its callers looks up only what differs.
#pragma once

#include <pyprof/profile.h>

#include "python/code_cache.h"
#include "python/frames.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace pyprof {

class StackBuilder {
public:
    StackBuilder(CodeCache& codes, StackTable& stacks, bool with_lines);

    [[nodiscard]] bool with_lines() const { return with_lines_; }
    // Behind the end of every code: it has no line.
    static constexpr std::int32_t kNoInstruction = std::numeric_limits<std::int32_t>::max();

    struct Step {
        CodeIndex code = kNoCode;
        std::int32_t instruction = 0;
        StackId stack = kRootStack;
        PathId path = kRootPath;
    };
    // A chain with the stacks that its prefixes stand for, root first.
    struct Chain {
        std::vector<RawFrame> frames;  // leaf first, as walked
        std::vector<Step> steps;       // root first, as long as frames where the chain made sense
        std::uint32_t marked_epoch = 0;  // its codes are noted as used in this epoch
        std::size_t unchanged = 0;       // steps that the last build left as they were
        std::size_t same_calls = 0;      // steps, these among them, that are still the same calls, perhaps at another instruction
        std::uint64_t drops = 0;         // code objects that were dropped before the last build
        std::vector<std::uint32_t> read_at;  // the steps whose code object was read after the frames were copied
        CodeIndex misfit = kNoCode;      // of a torn one: the code that its last frame's instruction does not lie in
        bool is_cut = false;             // where a name could not be told (sample/sampler_names.cpp)

        // Of several builds for one sample, what all of them left as it was.
        struct Kept {
            std::size_t unchanged = std::numeric_limits<std::size_t>::max();
            std::size_t same_calls = std::numeric_limits<std::size_t>::max();
        };
        [[nodiscard]] Kept kept() const { return {unchanged, same_calls}; }
        void keep_at_most(const Kept& most) {
            unchanged = std::min(unchanged, most.unchanged);
            same_calls = std::min(same_calls, most.same_calls);
        }
    };
    enum class Built : std::uint8_t {
        kSame,     // equal to the chain's last state
        kChanged,
        kTorn,     // a frame and its code do not belong together; steps hold what made sense, root side
    };
    // Frames are copied now: code that is read from here on is newer than they.
    void note_copy() { copy_serial_ = codes_.next_serial(); }
    [[nodiscard]] bool is_newer_than_copy(CodeIndex code) const { return codes_.entry(code).serial >= copy_serial_; }
    // Brings `chain` to the state of `walk`. A chain longer than kMaxFrames loses its middle.
    Built build(const Walk& walk, Chain& chain);

    [[nodiscard]] StackId stack_of(const Chain& chain) const {
        return chain.steps.empty() ? kRootStack : chain.steps.back().stack;
    }
    [[nodiscard]] PathId path_of(const Chain& chain) const {
        return chain.steps.empty() ? kRootPath : chain.steps.back().path;
    }

    // Marks a path and its prefixes as real, and learns from it which codes have one caller alone.
    void prove(PathId path);
    // The same for a path that joins two chains: nobody's caller is learnt from it.
    void prove_joined(PathId path);
    // What was proved since the last call goes to the end of `proofs`: it holds as long as the names that it went
    // through do (sample/epoch.h).
    void take_proofs(std::vector<PathId>& proofs);
    // Takes a proof back; the caller does so for every path that continues this one.
    void disprove(PathId path);
    // A sample of this thread was accepted as this chain: calls that it has begun since the last one count for is_sole(), and
    // its callers' lines are remembered.
    void note_accepted(const Chain& chain, Address thread);
    // The chain is real, but no sample: its callers' lines alone are remembered.
    void note_callers(const Chain& chain);
    // Whether `path` is the only known one that ends in its code, after so many sightings that another one
    // would have shown itself.
    [[nodiscard]] bool is_sole(PathId path, std::uint32_t sightings) const;
    // The stack of the only known path to the code of `leaf`, with its callers as they were seen last;
    // nothing when the code has several, is not known well enough, or was seen in one other thread alone.
    [[nodiscard]] std::optional<Step> sole_stack(const RawFrame& leaf, std::uint32_t sightings, Address thread);

    // "[name]" as a frame on top of `parent`, with the parent's path.
    StackId marker(StackId parent, PathId path, std::string_view name);
    // [unproved] -> the leaf as far as it is known. `leaf` may be kNullAddress.
    StackId unproved(const RawFrame* leaf);
    // The same for a leaf that is sure, with a path of its own: its callers may follow later, see infer_leaves().
    // Nothing where its code is not known.
    [[nodiscard]] std::optional<Step> leaf_alone(const RawFrame& leaf, Address thread);
    // A sample of `stack` whose path is not proved, of which `callers` are sure: a node that is counted when the profile is
    // made ready (FrameKind::kUnproved). `is_leaf`: `stack` is what unproved() made, and no proof will change it.
    StackId above_callers(StackId callers, StackId stack, bool is_leaf);
    // The path that continues `parent` by the last code of `last`.
    PathId extend(PathId parent, PathId last) { return last == kRootPath ? parent : extend_path(parent, identity_of(last)); }
    // Samples of this unproved path, in this thread, have a leaf that is sure: should it never be proved, callers may follow
    // as well.
    void note_leaf(PathId path, Address thread);
    // Gives the leaves that were noted the callers of the one path that is known to them by now, and takes them away
    // again from those to which another path was seen.
    void infer_leaves(std::uint32_t sightings);
    // The code's identity at the end of a path; kRootPath has none (~0).
    [[nodiscard]] std::uint32_t identity_of(PathId path) const { return path_identity_[raw(path)]; }
    PathId child_path(PathId parent, CodeIndex code);

    // A stack and the path of its codes.
    struct Place {
        StackId stack = kRootStack;
        PathId path = kRootPath;
    };
    // The frames of `above` on top of those of `below`: two chains of one thread. Where the tables are full, `above` alone.
    Place join(StackId below, StackId above);
    FrameId frame_of(CodeIndex code, std::int32_t instruction);
    // A root of its own, proved, for paths that are not those of a thread; child_path() extends it.
    PathId separate_root(std::uint32_t which);
    // Whether the tables hold as much as they may: then nothing new is put into them.
    [[nodiscard]] bool is_full() const { return stacks_.stack_count() >= kMaxStacks; }

private:
    // The most nodes that a table may hold: beyond it, new stacks are kept by their leaf alone.
    static constexpr std::size_t kMaxStacks = 1U << 20;
    static constexpr std::size_t kMaxEdges = 1U << 20;

    struct EdgeKey {
        std::uint32_t parent, code_serial;
        std::int32_t instruction;
        bool operator==(const EdgeKey&) const = default;
    };
    struct EdgeHash {
        std::size_t operator()(const EdgeKey& key) const {
            std::uint64_t mixed = (static_cast<std::uint64_t>(key.parent) << 32 | key.code_serial) *
                                  0x9E3779B97F4A7C15ULL;
            mixed ^= static_cast<std::uint32_t>(key.instruction) * 0xC2B2AE3D27D4EB4FULL;
            return static_cast<std::size_t>(mixed ^ (mixed >> 32));
        }
    };
    struct Edge {
        StackId stack;
        PathId path;
    };
    PathId extend_path(PathId parent, std::uint32_t identity);
    PathId leaves_root(Address thread);
    static void note_thread(Address& seen_in, Address thread);
    void find_codes(std::span<const RawFrame> frames);
    bool step_to(const Step& parent, const RawFrame& frame, CodeIndex code, Chain& chain, Step& step);

    struct Lineage {  // of a code identity
        PathId first = kRootPath;     // the path that was proved first
        std::uint32_t paths = 0;      // proved ones that end in it
        std::uint32_t sightings = 0;  // calls of it that accepted samples met
        Address seen_in{};            // the thread of these, or kSeveralThreads
    };
    static constexpr Address kSeveralThreads{~0ULL};
    Lineage& lineage_of(std::uint32_t identity);
    // What stood below the end of the only known path to a code; nothing when there are several, or it was seen too
    // seldom.
    [[nodiscard]] std::optional<StackId> sole_callers(std::uint32_t identity, std::uint32_t sightings, Address thread) const;

    CodeCache& codes_;
    StackTable& stacks_;
    bool with_lines_;
    std::vector<CodeIndex> found_codes_;  // of the frames that are built now, root first
    std::vector<Address> new_codes_;      // of them, those that were not known
    std::vector<PathId> new_proofs_;
    std::vector<Lineage> lineages_;      // by identity
    std::vector<StackId> last_callers_;  // by path: the parent stack of its last accepted sample
    std::uint32_t copy_serial_ = 0;      // code objects from this one on were read after the copy
    std::vector<Address> leaf_threads_;  // those with leaves alone; each has a root for their paths
    std::vector<PathId> leaves_;         // unproved paths whose leaves are sure
    std::vector<Address> noted_in_;      // by path: where it is or was one of them, its thread or kSeveralThreads
    tsl::robin_map<EdgeKey, Edge, EdgeHash> edges_;
    std::vector<std::uint32_t> path_identity_{~0U};
    tsl::robin_map<std::uint64_t, Place> joined_;  // by both stacks
    std::vector<StackId> to_join_;
    Walk cut_;
};

}  // namespace pyprof
