// SPDX-License-Identifier: Apache-2.0
#include "sample/native_merge.h"

#include <algorithm>
#include <limits>

namespace pyprof {
namespace {

using Kind = MergedFrame::Kind;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

class Emitter {
public:
    Emitter(const NativeStack& native, std::span<const PythonRun> runs, Merged& merged)
        : native_(native), runs_(runs), merged_(merged) {
        merged_.frames.clear();
        merged_.unplaced = 0;
    }

    // `hosts`: for each run the native frame in which it lies, never decreasing, or kNowhere.
    void emit(const std::vector<std::size_t>& hosts) {
        std::size_t run = 0;
        std::size_t gap = 0;
        for (std::size_t i = 0; i < native_.frames.size(); ++i) {
            bool runs_python = false;
            // What is in no frame comes before the next that is: between two known places.
            std::size_t placed = run;
            while (placed < hosts.size() && hosts[placed] == kNowhere) ++placed;
            while (placed < hosts.size() && hosts[placed] == i) {
                while (run <= placed) add_run(hosts, run++);
                runs_python = true;
                placed = run;
                while (placed < hosts.size() && hosts[placed] == kNowhere) ++placed;
            }
            merged_.frames.push_back({Kind::kNative, static_cast<std::uint32_t>(i), runs_python});
            if (gap < native_.gaps.size() && native_.gaps[gap] == i + 1) {
                merged_.frames.push_back({Kind::kLost, 0, false});
                ++gap;
            }
        }
        // Python frames below the end of a cut stack; what is missing below all of them is nothing to show.
        const bool is_cut = !native_.is_complete && !native_.frames.empty();
        if (is_cut && (run < runs_.size() || runs_.empty())) merged_.frames.push_back({Kind::kLost, 0, false});
        while (run < runs_.size()) add_run(hosts, run++);
    }

private:
    void add_run(const std::vector<std::size_t>& hosts, std::size_t run) {
        if (hosts[run] == kNowhere) ++merged_.unplaced;
        for (std::uint32_t k = 0; k < runs_[run].frames; ++k) {
            merged_.frames.push_back({Kind::kPython, next_python_++, false});
        }
    }

    const NativeStack& native_;
    std::span<const PythonRun> runs_;
    Merged& merged_;
    std::uint32_t next_python_ = 0;
};

}  // namespace

void merge_by_address(const NativeStack& native, std::span<const PythonRun> runs, Merged& merged) {
    std::vector<std::size_t> hosts(runs.size(), kNowhere);
    std::size_t from = 0;
    for (std::size_t run = 0; run < runs.size(); ++run) {
        if (runs[run].entry == kNullAddress) continue;
        for (std::size_t i = from; i < native.frames.size(); ++i) {
            const NativeFrame& frame = native.frames[i];
            if (frame.cfa == kNullAddress || !is_within(runs[run].entry, frame.sp, frame.cfa)) continue;
            hosts[run] = i;
            from = i;
            break;
        }
    }
    Emitter(native, runs, merged).emit(hosts);
}

void merge_by_count(const NativeStack& native, const std::vector<bool>& is_eval, std::uint32_t python_frames, Merged& merged) {
    std::vector<std::size_t> loops;
    for (std::size_t i = 0; i < native.frames.size() && i < is_eval.size(); ++i) {
        if (is_eval[i]) loops.push_back(i);
    }
    const std::vector<PythonRun> runs(python_frames, PythonRun{kNullAddress, 1});
    std::vector<std::size_t> hosts(runs.size(), kNowhere);
    // From the root where it was reached; the one too many is the leaf's.
    const bool is_whole = native.is_complete && native.gaps.empty();
    const bool can_place = !is_whole || loops.size() >= runs.size();
    const std::size_t surplus = is_whole && loops.size() == runs.size() + 1 ? 1 : 0;
    for (std::size_t run = 0; can_place && run < runs.size() && run + surplus < loops.size(); ++run) hosts[run] = loops[run + surplus];
    Emitter(native, runs, merged).emit(hosts);
}

}  // namespace pyprof
