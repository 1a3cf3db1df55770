// SPDX-License-Identifier: Apache-2.0
//
// Adds up samples: one weight a (thread, stack), and where asked for the spans in the order of time.
// Main thread only. One sample is one hash look-up; memory grows with distinct stacks, and with changes
// of the stack where spans are kept, never with the number of samples.
#include <pyprof/error.h>
#include <pyprof/profile.h>

#include <tsl/robin_map.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "profile/hash.h"
#include "profile/spans.h"
#include "profile/utf8.h"

namespace pyprof {
namespace {

// Some 64 MB, and about what a viewer can still open. Beyond it there are no spans at all: a part of the
// time would look like the whole.
constexpr std::size_t kMaxSpans = 2'000'000;

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

struct Profile::Index {
    tsl::robin_map<std::uint64_t, std::size_t, MixHash> weight_of;  // (thread, stack) -> weights_
    std::vector<std::size_t> last_span;                             // thread -> spans_, or kNone
};

Profile::Profile(std::shared_ptr<StackTable> stacks, bool keep_spans)
    : stacks_(std::move(stacks)), index_(std::make_unique<Index>()), keep_spans_(keep_spans) {
    check(stacks_ != nullptr, "a profile without a stack table");
}

Profile::~Profile() = default;

ThreadIndex Profile::add_thread(ProfiledThread thread) {
    thread.name = to_valid_utf8(thread.name);  // foreign, and not interned like other names
    threads_.push_back(std::move(thread));
    index_->last_span.push_back(kNone);
    return static_cast<ThreadIndex>(threads_.size() - 1);
}

std::size_t Profile::add(ThreadIndex thread, StackId stack, std::uint32_t samples, std::chrono::nanoseconds weight,
                         std::chrono::nanoseconds when) {
    check(thread < threads_.size(), "a sample of a thread that was not added");
    const auto [entry, is_new] = index_->weight_of.try_emplace(pair(thread, raw(stack)), weights_.size());
    if (is_new) weights_.push_back(Weight{thread, stack, 0, {}});
    const std::size_t index = entry->second;
    Weight& sum = weights_[index];
    sum.samples += samples;
    sum.time += weight;
    total_samples_ += samples;
    if (!keep_spans_) return index;

    const Span span{stack, thread, samples, weight, std::max(when - weight, std::chrono::nanoseconds{0})};
    std::size_t& last = index_->last_span[thread];
    if (last != kNone && spans_[last].stack == stack && follows(spans_[last], span)) {
        join(spans_[last], span);
        return index;
    }
    if (spans_.size() == kMaxSpans) {
        spans_ = {};
        keep_spans_ = false;
        return index;
    }
    last = spans_.size();
    spans_.push_back(span);
    return index;
}

}  // namespace pyprof
