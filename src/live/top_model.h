// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof top` counts: the samples of the last interval and those since the start, each for running threads, for
// all threads and for holders of the GIL, so that a view can change between them and lose nothing. A recording may be
// followed by another one of the same process (with native frames, say); what was counted stays. Main thread only.
#pragma once

#include <pyprof/profile.h>

#include "live/sample_log.h"
#include "live/sample_series.h"
#include "live/top_tree.h"
#include "sample/epoch.h"
#include "sample/sampler.h"

#include <array>
#include <chrono>
#include <memory>
#include <vector>

namespace pyprof {

class TopModel {
public:
    // A recording begins, `when` on the monotonic clock. `source` is its own profile, for its threads and facts, and must
    // live until end().
    void begin(const Profile& source, std::shared_ptr<StackTable> stacks, std::shared_ptr<NativeNames> natives, std::chrono::nanoseconds when);
    void end();

    void add(const SampleRecord& record);
    // The interval is over: what was added since the last call is "the last interval" from now on.
    void end_interval();
    // Forgets all counts, `when` on the monotonic clock.
    void reset(std::chrono::nanoseconds when);

    struct Choice {
        WhichThreads which = WhichThreads::kRunning;
        bool per_thread = false;
        bool with_native = false;  // else native frames are left out, and threads that have no others
    };
    // One for each recording; they refer to the model.
    [[nodiscard]] std::vector<TopSource> last_interval(const Choice& choice) const;
    [[nodiscard]] std::vector<TopSource> since_start(const Choice& choice) const;
    // All recordings as one. In the order of time where that is asked for and was kept.
    [[nodiscard]] ResolvedProfile whole(const Choice& choice, bool full_filenames = false, bool in_order = false) const;
    [[nodiscard]] bool has_order() const;

    [[nodiscard]] std::uint64_t total_samples(WhichThreads which) const;
    [[nodiscard]] bool has_waiting_tasks() const;  // among what was counted

private:
    struct Counted {
        explicit Counted(const std::shared_ptr<StackTable>& stacks) : profile(stacks), series(kMostRuns) {}
        Profile profile;
        SampleSeries series;  // a key is the index of a weight of the profile
    };
    using Each = std::array<std::shared_ptr<Counted>, 3>;  // by WhichThreads
    struct Part {
        const Profile* source = nullptr;  // null: it has ended
        std::vector<ProfiledThread> threads;
        ProfileFacts facts;
        std::shared_ptr<StackTable> stacks;
        std::shared_ptr<NativeNames> natives;
        std::chrono::nanoseconds began{0};
        SampleLog log;
        Each all;
        Each current;
        Each last;
    };
    // So many are gone through for each screen with errors.
    static constexpr std::size_t kMostRuns = 20'000;

    static Each fresh(const std::shared_ptr<StackTable>& stacks);
    static void take_threads(Part& part);
    static void describe(Profile& profile, const Part& part, const Choice& choice);
    static TopSource source_of(const Part& part, const std::shared_ptr<Counted>& counted, const Choice& choice);

    std::vector<Part> parts_;  // the last one may be running
    std::chrono::nanoseconds counts_from_{0};
};

}  // namespace pyprof
