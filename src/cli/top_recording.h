// SPDX-License-Identifier: Apache-2.0
//
// What `pyprof top` records behind its screen, and the data that the screen is drawn from. What is recorded can change
// while it runs (native frames, tasks): the sampler begins anew then, and what was counted stays. It knows of no screen.
#pragma once

#include "cli/attach.h"
#include "live/process_usage.h"
#include "live/top_model.h"
#include "live/top_view.h"
#include "sample/recorder.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

class TopRecording {
public:
    struct Settings {
        double rate_hz = 100;
        bool nonblocking = false;
        bool full_filenames = false;        // in what is saved
        std::vector<std::string> command;   // where the process does not tell its own
    };
    // Starts to sample at once. `attached` must outlive it.
    TopRecording(Attached& attached, pid_t pid, Settings settings, const TopView& view);
    ~TopRecording();
    TopRecording(const TopRecording&) = delete;
    TopRecording& operator=(const TopRecording&) = delete;

    [[nodiscard]] int finished_fd() const { return recorder_->finished_fd(); }
    [[nodiscard]] bool is_finished() const { return recorder_->is_finished(); }
    [[nodiscard]] bool target_ended() const { return recorder_->target_ended(); }
    void drain();
    [[nodiscard]] std::chrono::milliseconds drain_pause() const { return recorder_->drain_pause(); }
    void join();  // and takes what came last
    void stop();  // and joins
    // No thread of the target is in our hand between the two.
    void hold() { recorder_->hold(); }
    void release() { recorder_->release(); }

    // Records what the view asks for from now on. Returns what is to be told of it; the view says afterwards what is so, and
    // is to be recounted.
    std::string change(TopView& view);
    void end_interval(const TopView& view);
    void recount(const TopView& view);  // the view has changed
    void reset(const TopView& view);
    std::string save(const std::string& path, const TopView& view);  // returns what became of it
    [[nodiscard]] std::vector<TopSource> since_start(const TopView& view) const;
    [[nodiscard]] std::uint64_t total_samples(const TopView& view) const { return model_.total_samples(view.which); }

    [[nodiscard]] const TopData& data() const { return data_; }
    void note_end() { data_.facts.has_ended = true; }

private:
    void begin(const TopView& view);
    [[nodiscard]] RunFigures figures() const;
    void measure_usage();

    Attached& attached_;
    pid_t pid_;
    Settings settings_;
    bool with_native_ = false;  // what is recorded now
    AsyncMode async_ = AsyncMode::kOff;
    ProfileFacts facts_;
    std::unique_ptr<Recorder> recorder_;
    TopModel model_;
    TopData data_;
    RunFigures earlier_;  // of recordings that have ended
    RunFigures at_reset_;
    RunFigures at_interval_;
    std::optional<ProcessUsage> usage_;
    std::chrono::nanoseconds usage_read_{0};
};

}  // namespace pyprof
