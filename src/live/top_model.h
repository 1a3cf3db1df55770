// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof top` counts: the samples of the last interval and those since the start, each for running threads, for
// all threads and for holders of the GIL, so that a view can change between them and lose nothing. Main thread only.
#pragma once

#include <pyprof/profile.h>

#include "sample/epoch.h"
#include "sample/sampler.h"

#include <array>
#include <chrono>
#include <memory>

namespace pyprof {

class TopModel {
public:
    // `source`: the recording's own profile, for its threads and facts; it must outlive the model.
    TopModel(const Profile& source, std::shared_ptr<StackTable> stacks);

    void add(const SampleRecord& record);
    // The interval is over: what was added since the last call is "the last interval" from now on.
    void end_interval();
    // Forgets all counts.
    void reset();

    [[nodiscard]] ResolvedProfile last_interval(WhichThreads which, bool per_thread) const;
    [[nodiscard]] ResolvedProfile since_start(WhichThreads which, bool per_thread, bool full_filenames = false) const;
    [[nodiscard]] std::uint64_t total_samples(WhichThreads which) const;

private:
    using Profiles = std::array<std::unique_ptr<Profile>, 3>;  // by WhichThreads
    [[nodiscard]] Profiles fresh() const;
    static void add_to(Profile& profile, const Profile& source, const SampleRecord& record);
    ResolvedProfile resolved(Profile& profile, WhichThreads which, bool per_thread, bool full_filenames) const;

    const Profile& source_;
    std::shared_ptr<StackTable> stacks_;
    Profiles all_;
    Profiles current_;
    Profiles last_;
};

// "running", "all", "GIL-holding": of which threads the samples are.
const char* name_of(WhichThreads which);

// What was counted between two readings of the same recording.
RunFigures difference(const RunFigures& later, const RunFigures& earlier);

}  // namespace pyprof
