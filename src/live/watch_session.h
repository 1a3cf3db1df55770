// SPDX-License-Identifier: Apache-2.0
//
// The measurement behind `pyprof watch`: which functions are wanted, and every sample since the beginning, so
// that a function named late has its results from the start. It knows of no terminal and of no process: records
// go in, results come out.
#pragma once

#include "live/watch_name.h"
#include "live/sample_series.h"
#include "sample/epoch.h"

#include <pyprof/profile.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyprof {

struct WatchTime {
    std::uint64_t samples = 0;
    std::chrono::nanoseconds time{0};
    double error_s = 0;  // one standard error of the sampling; see docs/watch.md
};

struct WatchRow {
    std::string label;  // a function with its file, or the name that stands for several
    WatchTime own;      // it was the innermost Python function
    WatchTime total;    // it was on the stack, counted once however often
    std::chrono::nanoseconds first{0};  // seen so long after the beginning
    std::chrono::nanoseconds last{0};
};

struct WatchEntry {
    std::string name;
    std::optional<WatchRow> sum;         // of all that the name means; absent: not seen yet
    std::vector<WatchRow> functions;     // each one, by total time, where it means several
    std::size_t matches = 0;             // functions in all: only the first kMostFunctions are listed
    std::vector<std::string> near_misses;  // where nothing was seen
};

struct WatchResults {
    static constexpr std::size_t kMostFunctions = 100;

    std::vector<ProfileFacts> processes;
    std::chrono::nanoseconds sampled{0};  // wall time
    std::uint64_t samples = 0;            // the base of every share
    std::chrono::nanoseconds thread_time{0};
    std::uint64_t unproved = 0;  // samples of which only the leaf is known: a total may be low by these
    RunFigures figures;
    std::vector<WatchEntry> entries;
};

class WatchSession {
public:
    // False: it was there already.
    Result<bool> add(std::string_view name);
    bool remove(std::string_view name);
    [[nodiscard]] const std::vector<WatchName>& names() const { return names_; }

    // A recording begins, `when` on the monotonic clock; what was recorded before stays.
    void begin(std::shared_ptr<StackTable> stacks, ProfileFacts facts, std::chrono::nanoseconds when);
    void take(const SampleRecord& record, const std::vector<ProfiledThread>& threads);
    void update(const std::vector<ProfiledThread>& threads, const RunFigures& figures);
    // Forgets all samples; a recording that runs goes on from `when`.
    void reset(std::chrono::nanoseconds when);

    [[nodiscard]] std::uint64_t samples() const;
    [[nodiscard]] WatchResults results();
    // All recordings as one, for any output format. Nothing where nothing was recorded.
    [[nodiscard]] std::optional<ResolvedProfile> resolved() const;
    // Every function in a sample so far.
    [[nodiscard]] const std::vector<SeenFunction>& functions();

private:
    struct Part;
    struct Tally;
    struct Walked {
        std::uint32_t own = 0xFFFFFFFF;  // the innermost Python function, if there is one
        bool proved = false;
    };

    void see_functions(Part& part);
    std::uint32_t index_of(Part& part, FrameId frame);
    void tally(Part& part, Tally& tally);
    void add_errors(Part& part, Tally& tally);
    // The functions of a stack, each once, as far as they are known.
    Walked walk(Part& part, StackId stack, std::vector<std::uint32_t>& functions);

    std::vector<WatchName> names_;
    std::vector<std::shared_ptr<Part>> parts_;  // the last one may be running
    std::vector<SeenFunction> seen_;
    std::unordered_map<std::string, std::uint32_t> index_of_;  // of file and name in seen_
    std::chrono::nanoseconds began_{0};
};

}  // namespace pyprof
