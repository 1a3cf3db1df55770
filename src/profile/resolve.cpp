// SPDX-License-Identifier: Apache-2.0
//
// Makes a profile ready to be written: ids become text, paths short, and a stack whose path was never
// proved becomes [unproved] -> leaf, because only its leaf is known to be real; below stand the callers that are sure, if
// any. A leaf whose callers were not read gets those that follow by now, and is counted as inferred. No sample is invented
// or dropped: the sum of the weights stays what was recorded.
#include <pyprof/error.h>
#include <pyprof/profile.h>

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <limits>
#include <utility>

#include "profile/hash.h"
#include "profile/source_path.h"
#include "profile/spans.h"

namespace pyprof {
namespace {

constexpr const char* kUnproved = "[unproved]";
constexpr std::uint32_t kRootNode = 0;
constexpr std::uint32_t kNoRoot = std::numeric_limits<std::uint32_t>::max();  // nodes that aren't remembered
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

class Resolver {
public:
    Resolver(const Profile& profile, const ResolveOptions& options)
        : profile_(profile), stacks_(profile.stacks()), options_(options) {
        result_.facts = profile.facts;
        result_.figures = profile.figures;
        result_.threads = profile.threads();
        result_.nodes.push_back({});
        for (const ProfiledThread& thread : result_.threads) thread_roots_.push_back(thread_root(thread));
    }

    ResolvedProfile run() {
        for (const Profile::Weight& weight : profile_.weights()) add(weight);
        std::vector<std::size_t> last_span(result_.threads.size(), kNone);
        for (const Profile::Span& span : profile_.spans()) add(span, last_span);
        return std::move(result_);
    }

private:
    void add(const Profile::Weight& weight) {
        const StackTable::Shown shown = stacks_.shown(weight.stack);  // asked once: the writer may be proving it now
        const std::uint32_t node = node_of(weight.thread, shown);
        if (options_.node_of_weight != nullptr) options_.node_of_weight->push_back(node);
        if (!shown.is_proved) (shown.are_inferred ? result_.figures.inferred : result_.figures.truncated) += weight.samples;
        result_.total_samples += weight.samples;
        const auto [entry, is_new] =
            weight_of_.try_emplace(pair(weight.thread, node), result_.weights.size());
        if (is_new) {
            result_.weights.push_back({weight.thread, node, weight.samples, weight.time});
            return;
        }
        result_.weights[entry->second].samples += weight.samples;
        result_.weights[entry->second].time += weight.time;
    }

    void add(const Profile::Span& span, std::vector<std::size_t>& last_span) {
        const std::uint32_t node = node_of(span.thread, stacks_.shown(span.stack));
        const ResolvedProfile::Span next{span.thread, node, span.samples, span.weight, span.begin};
        std::size_t& last = last_span[span.thread];
        if (last != kNone && result_.spans[last].node == node && follows(result_.spans[last], next)) {
            join(result_.spans[last], next);
            return;
        }
        last = result_.spans.size();
        result_.spans.push_back(next);
    }

    std::uint32_t node_of(ThreadIndex thread, const StackTable::Shown& shown) {
        const std::uint32_t root = thread_roots_[thread];
        if (shown.is_proved) return proved_node(root, shown.stack);
        const std::uint32_t callers = proved_node(root, shown.callers);
        return leaf_node(shown.are_inferred ? callers : child(callers, marker(kUnproved)), shown.stack);
    }

    // Climbs until a known node, then comes back down; a loop, since stacks can be 10,000 frames deep. What native
    // frames become hangs on what stands above them, so that nodes of Python frames alone are remembered.
    std::uint32_t proved_node(std::uint32_t root, StackId stack) {
        std::uint32_t node = root;
        climbed_.clear();
        for (; stack != kRootStack; stack = stacks_.node(stack).parent) {
            const auto known = proved_nodes_.find(pair(root, raw(stack)));
            if (known != proved_nodes_.end()) {
                node = known->second;
                break;
            }
            climbed_.push_back(stack);
        }
        return descend(node, root, stack == kRootStack);
    }

    // From `node` through climbed_, whose last is the next.
    std::uint32_t descend(std::uint32_t node, std::uint32_t root, bool from_root) {
        std::size_t last_python = climbed_.size();  // the one nearest to the leaf
        for (std::size_t i = climbed_.size(); i-- > 0;) {
            if (kind_of(climbed_[i]) == FrameKind::kPython) last_python = i;
        }
        bool has_python_below = !from_root;
        for (std::size_t i = climbed_.size(); i-- > 0;) {
            const FrameId frame = stacks_.node(climbed_[i]).frame;
            const FrameKind kind = kind_of(climbed_[i]);
            if (kind == FrameKind::kNative) {
                run_.push_back(static_cast<std::uint32_t>(stacks_.frame(frame).line));
                if (i > 0 && kind_of(climbed_[i - 1]) == FrameKind::kNative) continue;
                node = add_run(node, {i < last_python || last_python == climbed_.size(), !has_python_below});
                continue;
            }
            node = child(node, frame_of(frame));
            if (kind != FrameKind::kPython) continue;
            has_python_below = true;
            if (root != kNoRoot) proved_nodes_.emplace(pair(root, raw(climbed_[i])), node);
        }
        return node;
    }

    [[nodiscard]] FrameKind kind_of(StackId stack) const { return stacks_.frame(stacks_.node(stack).frame).kind; }

    std::uint32_t add_run(std::uint32_t node, NativeNames::RunPlace place) {
        shown_.clear();
        if (options_.natives != nullptr) options_.natives->name_run(run_, place, shown_);
        run_.clear();
        for (ResolvedProfile::Frame& frame : shown_) {
            if (!result_.facts.with_lines) frame.line = 0;
            if (!options_.full_filenames) frame.file = shorten(frame.file, result_.facts.working_directory).short_path;
            node = child(node, native(std::move(frame)));
        }
        return node;
    }

    std::uint32_t native(ResolvedProfile::Frame frame) {
        const std::string key = fmt::format("{}\0{}\0{}\0{}", frame.name, frame.module, frame.full_file, frame.line);
        const auto [entry, is_new] = natives_.try_emplace(key, static_cast<std::uint32_t>(result_.frames.size()));
        if (is_new) result_.frames.push_back(std::move(frame));
        return entry->second;
    }

    // The leaf is real: the thread stood there. A marker on top ([gc]) keeps the frame that it stands on.
    std::uint32_t leaf_node(std::uint32_t below, StackId stack) {
        climbed_.clear();
        for (; stack != kRootStack; stack = stacks_.node(stack).parent) {
            const Frame& frame = stacks_.frame(stacks_.node(stack).frame);
            if (frame.kind == FrameKind::kMarker && stacks_.string(frame.name) == kUnproved) break;
            climbed_.push_back(stack);
            if (frame.kind == FrameKind::kPython) break;
        }
        return descend(below, kNoRoot, false);
    }

    std::uint32_t thread_root(const ProfiledThread& thread) {
        if (!result_.facts.with_threads) return kRootNode;
        const std::string name = thread.name.empty() ? std::to_string(thread.native_id) : thread.name;
        return child(kRootNode, marker(fmt::format("[thread {}]", name)));
    }

    std::uint32_t child(std::uint32_t parent, std::uint32_t frame) {
        const auto [entry, is_new] =
            children_.try_emplace(pair(parent, frame), static_cast<std::uint32_t>(result_.nodes.size()));
        if (is_new) result_.nodes.push_back({parent, frame});
        return entry->second;
    }

    std::uint32_t marker(const std::string& name) {
        const auto [entry, is_new] =
            markers_.try_emplace(name, static_cast<std::uint32_t>(result_.frames.size()));
        if (is_new) result_.frames.push_back({FrameKind::kMarker, name, {}, {}, 0, {}});
        return entry->second;
    }

    std::uint32_t frame_of(FrameId id) {
        Frame frame = stacks_.frame(id);
        if (!result_.facts.with_lines) frame.line = 0;
        if (frame.kind == FrameKind::kMarker && frame.file == kNoString) {
            return marker(std::string(stacks_.string(frame.name)));
        }
        const auto [entry, is_new] =
            frames_.try_emplace(frame, static_cast<std::uint32_t>(result_.frames.size()));
        if (is_new) result_.frames.push_back(as_text(frame));
        return entry->second;
    }

    [[nodiscard]] ResolvedProfile::Frame as_text(const Frame& frame) const {
        const std::string_view file = stacks_.string(frame.file);
        const std::string_view shown =
            options_.full_filenames ? file : shorten(file, result_.facts.working_directory).short_path;
        return {frame.kind, std::string(stacks_.string(frame.name)), std::string(shown), std::string(file),
                frame.line, {}};
    }

    const Profile& profile_;
    const StackTable& stacks_;
    const ResolveOptions& options_;
    ResolvedProfile result_;
    std::vector<std::uint32_t> thread_roots_;
    std::vector<StackId> climbed_;  // kept for their memory, as the next two
    std::vector<std::uint32_t> run_;
    std::vector<ResolvedProfile::Frame> shown_;
    tsl::robin_map<Frame, std::uint32_t, FrameHash> frames_;
    tsl::robin_map<std::string, std::uint32_t> markers_;
    tsl::robin_map<std::string, std::uint32_t> natives_;
    tsl::robin_map<std::uint64_t, std::uint32_t, MixHash> children_;      // (parent, frame)
    tsl::robin_map<std::uint64_t, std::uint32_t, MixHash> proved_nodes_;  // (thread's root, stack)
    tsl::robin_map<std::uint64_t, std::size_t, MixHash> weight_of_;       // (thread, node)
};

}  // namespace

ResolvedProfile resolve(const Profile& profile, const ResolveOptions& options) {
    return Resolver(profile, options).run();
}

std::string label_of(const ResolvedProfile::Frame& frame) {
    if (frame.kind != FrameKind::kPython && frame.file.empty()) {
        return frame.module.empty() ? frame.name : fmt::format("{} ({})", frame.name, frame.module);
    }
    if (frame.line > 0) return fmt::format("{} ({}:{})", frame.name, frame.file, frame.line);
    return fmt::format("{} ({})", frame.name, frame.file);
}

}  // namespace pyprof
