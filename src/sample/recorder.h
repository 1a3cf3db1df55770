// SPDX-License-Identifier: Apache-2.0
//
// A recording: the sampler on a thread of its own, the profile on the caller's, one bounded ring
// between them. What does not fit the ring is counted, never waited for.
#pragma once

#include <pyprof/profile.h>
#include <pyprof/target.h>

#include "base/spsc_ring.h"
#include "base/unique_fd.h"
#include "python/python_process.h"
#include "sample/sampler.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace pyprof {

struct RecordingOptions {
    SamplerOptions sampler;
    std::optional<std::chrono::nanoseconds> duration;
    bool keep_spans = false;  // samples in the order of time, too
    bool by_thread = true;    // else those of all threads are added up as of one: a program may begin any number of them
    bool native = false;      // native frames, too
    NativeNamingOptions naming;  // ... what they are called
    bool may_stop = true;     // short stops of a thread, to prove what can't be proved otherwise
    std::uint64_t seed = 0;   // of the jitter; 0: from the clock
};

class Recorder final : private Sampler::Sink {
public:
    // The target and the process are used by the sampler's thread alone from start() to stop().
    Recorder(Target& target, PythonProcess& process, const RecordingOptions& options);
    ~Recorder() override;

    void start();
    void request_stop() { stop_.store(true, std::memory_order_relaxed); }
    // Readable once the sampler has ended: by request, duration or the target's end.
    [[nodiscard]] int finished_fd() const { return finished_.get(); }
    [[nodiscard]] bool is_finished() const { return is_finished_.load(std::memory_order_acquire); }
    // Whether it was the target that ended.
    [[nodiscard]] bool target_ended() const { return target_ended_.load(std::memory_order_acquire); }
    void join();

    // Between hold() and release() no tick is under way and no thread of the target is held: for a time in which we are
    // stopped ourselves.
    void hold();
    void release();

    // Main thread: takes what the ring holds into the profile and brings its figures up to date. The observer is
    // shown each record once the profile has it, in the order of time within a thread.
    using Observer = std::function<void(const SampleRecord&)>;
    void drain(const Observer& observer = {});
    // For how long drain() may be put off: till a quarter of the ring is full, and 250 ms at most.
    [[nodiscard]] std::chrono::milliseconds drain_pause() const;
    [[nodiscard]] Profile& profile() { return profile_; }
    // Of this recording; whoever keeps it may read it when the recorder is gone.
    [[nodiscard]] std::shared_ptr<StackTable> stacks() const { return stacks_; }
    // Names of native frames, for resolve(); null without any. Whoever keeps them may ask when the recorder is gone.
    [[nodiscard]] std::shared_ptr<NativeNames> natives() const { return natives_; }

private:
    void add_thread(const ProfiledThread& thread) override;
    void name_thread(ThreadIndex thread, const std::string& name) override;
    void add_sample(const SampleRecord& record) override;
    void run();
    struct Missed {  // of the time: periods that had passed, and what no sample stands for
        std::uint64_t late = 0;
        std::chrono::nanoseconds paused{0};
    };
    void publish(const Sampler& sampler, std::chrono::nanoseconds began, const Missed& missed);
    void take_threads();
    bool begin_tick(ThreadStopper& stopper);

    static constexpr std::size_t kRingRecords = 1U << 15;
    static constexpr std::size_t kFastRingRecords = 1U << 13;  // where nothing is lost, since it waits: stays near the processor

    Target& target_;
    PythonProcess& process_;
    RecordingOptions options_;
    std::shared_ptr<StackTable> stacks_;
    std::shared_ptr<NativeAddresses> natives_;
    Profile profile_;
    SpscRing<SampleRecord> ring_;
    std::size_t seen_threads_ = 0;
    std::uint64_t lost_ = 0;
    std::chrono::nanoseconds first_sample_{0};

    std::mutex mutex_;  // of the three below
    std::vector<ProfiledThread> new_threads_;
    std::vector<std::pair<ThreadIndex, std::string>> new_names_;
    RunFigures figures_;

    std::atomic<bool> stop_{false};
    std::atomic<bool> hold_{false};
    std::atomic<bool> is_ticking_{false};
    std::atomic<bool> is_finished_{false};
    std::atomic<bool> target_ended_{false};
    UniqueFd finished_;
    std::thread thread_;
};

}  // namespace pyprof
