// SPDX-License-Identifier: Apache-2.0
#include "sample/recorder.h"

#include "base/clock.h"
#include "sample/pacer.h"
#include "target/live_target.h"
#include "target/ptrace_stop.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kPublishEvery{50};
constexpr std::chrono::microseconds kRingPause{200};
constexpr int kStopperNice = -15;
constexpr std::chrono::milliseconds kHoldPause{1};
// Waking up costs tens of microseconds where the processor was idle, as it is between samples at 100 Hz.
constexpr std::chrono::milliseconds kLeastDrainPause{20};
constexpr std::chrono::milliseconds kMostDrainPause{250};
// As fast as can be, a hundred threads fill the ring in 10 ms.
constexpr std::chrono::milliseconds kFastDrainPause{2};

}  // namespace

Recorder::Recorder(Target& target, PythonProcess& process, const RecordingOptions& options)
    : target_(target),
      process_(process),
      options_(options),
      stacks_(std::make_shared<StackTable>()),
      profile_(stacks_, options.keep_spans),
      ring_(options.sampler.rate_hz > 0 ? kRingRecords : kFastRingRecords),
      finished_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    check(finished_.get() >= 0, "no eventfd");
    if (!options.native) return;
    natives_ = std::make_shared<NativeAddresses>(target.pid(), options.naming);
    options_.sampler.natives = natives_.get();
}

Recorder::~Recorder() {
    request_stop();
    join();
}

void Recorder::start() { thread_ = std::thread([this] { run(); }); }

void Recorder::join() {
    if (thread_.joinable()) thread_.join();
}

void Recorder::run() {
    const auto entered = monotonic_now();
    ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // the default lets every sleep end 50 us late
    // Where we may: on a busy machine a thread that is stopped waits until we are on a processor. Of this thread alone.
    if (options_.native && options_.may_stop) ::setpriority(PRIO_PROCESS, 0, kStopperNice);
    ThreadStopper stopper(traced_process(target_.pid()));
    Sampler sampler(target_, process_, *stacks_, options_.sampler, *this, options_.may_stop ? &stopper : nullptr);
    const auto began = monotonic_now();
    const std::uint64_t seed = options_.seed != 0 ? options_.seed : static_cast<std::uint64_t>(began.count());
    Pacer pacer(options_.sampler.rate_hz, began, seed);
    Missed missed;
    auto published = began;
    nanoseconds owed{0};
    const auto settle = [&] { return sampler.settle(); };
    while (!stop_.load(std::memory_order_relaxed)) {
        const Pacer::Tick tick = pacer.wait(stop_, settle);
        missed.late += tick.late;
        missed.paused += tick.paused;
        if (stop_.load(std::memory_order_relaxed)) break;
        if (options_.duration && tick.when - began >= *options_.duration) break;
        if (!begin_tick(stopper)) {
            const auto now = monotonic_now();
            missed.late += 1 + pacer.skip(now);
            missed.paused += tick.weight + (now - tick.when);
            continue;
        }
        const Sampler::Outcome outcome = sampler.tick(tick.when, tick.weight + owed);
        owed = outcome == Sampler::Outcome::kHeldBack ? tick.weight + owed : nanoseconds{0};
        if (outcome == Sampler::Outcome::kTargetEnded) {
            target_ended_.store(true, std::memory_order_release);
            break;
        }
        is_ticking_.store(false);
        if (first_sample_.count() == 0 && sampler.has_sampled()) first_sample_ = monotonic_now() - entered;
        if (tick.when - published >= kPublishEvery) {
            published = tick.when;
            publish(sampler, began, missed);
        }
    }
    is_ticking_.store(false);
    const Pacer::Plan rest = pacer.plan(monotonic_now());  // what has passed since the last tick
    missed.late += rest.late;
    missed.paused += rest.paused;
    sampler.finish(monotonic_now());
    publish(sampler, began, missed);
    is_finished_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(finished_.get(), &one, sizeof one);  // can't fill up
}

// Of two flags, each set before the other is read, at least one is seen: a tick and hold() can't miss each other.
// False: it was held, and the tick's time has passed.
bool Recorder::begin_tick(ThreadStopper& stopper) {
    bool was_held = false;
    is_ticking_.store(true);
    while (hold_.load() && !stop_.load(std::memory_order_relaxed)) {
        was_held = true;
        stopper.release_late();
        if (!stopper.has_late()) is_ticking_.store(false);
        std::this_thread::sleep_for(kHoldPause);
        is_ticking_.store(true);
    }
    if (was_held) is_ticking_.store(false);
    return !was_held;
}

void Recorder::hold() {
    hold_.store(true);
    while (is_ticking_.load()) std::this_thread::sleep_for(kHoldPause);
}

void Recorder::release() { hold_.store(false); }

void Recorder::publish(const Sampler& sampler, std::chrono::nanoseconds began, const Missed& missed) {
    RunFigures figures = sampler.figures();
    figures.late = missed.late;
    figures.paused = missed.paused;
    figures.lost = lost_;
    figures.first_sample = first_sample_;
    figures.elapsed = monotonic_now() - began;
    const ReadCounters reads = target_.memory().counters();
    figures.remote_reads = reads.calls;
    figures.remote_bytes = reads.bytes;
    const std::lock_guard lock(mutex_);
    figures_ = figures;
}

void Recorder::add_thread(const ProfiledThread& thread) {
    const std::lock_guard lock(mutex_);
    new_threads_.push_back(thread);
}

void Recorder::name_thread(ThreadIndex thread, const std::string& name) {
    const std::lock_guard lock(mutex_);
    new_names_.emplace_back(thread, name);
}

void Recorder::add_sample(const SampleRecord& record) {
    while (!ring_.try_push(record)) {
        // As fast as can be means: as fast as the whole of pyprof can. At a given rate nothing waits.
        if (options_.sampler.rate_hz > 0 || stop_.load(std::memory_order_relaxed)) {
            lost_ += record.samples;
            return;
        }
        std::this_thread::sleep_for(kRingPause);
    }
}

void Recorder::take_threads() {
    const std::lock_guard lock(mutex_);
    for (ProfiledThread& thread : new_threads_) {
        if (options_.by_thread || seen_threads_ == 0) profile_.add_thread(std::move(thread));
        ++seen_threads_;
    }
    new_threads_.clear();
    for (auto& [thread, name] : new_names_) {
        if (options_.by_thread) profile_.name_thread(thread, std::move(name));
    }
    new_names_.clear();
}

std::chrono::milliseconds Recorder::drain_pause() const {
    if (options_.sampler.rate_hz <= 0) return kFastDrainPause;
    if (options_.sampler.async.mode == AsyncMode::kAll) return kLeastDrainPause;
    const double records_per_second = options_.sampler.rate_hz * static_cast<double>(std::max<std::size_t>(1, seen_threads_));
    const double pause_ms = 1000.0 * (kRingRecords / 4.0) / records_per_second;
    return std::chrono::milliseconds(static_cast<std::int64_t>(
        std::clamp<double>(pause_ms, kLeastDrainPause.count(), kMostDrainPause.count())));
}

void Recorder::drain(const Observer& observer) {
    take_threads();
    SampleRecord record;
    while (ring_.try_pop(record)) {
        if (record.thread >= seen_threads_) take_threads();
        profile_.add(options_.by_thread ? record.thread : 0, record.stack, record.samples, record.weight, record.when);
        if (observer) observer(record);
    }
    if (natives_ != nullptr) natives_->prepare();
    const std::lock_guard lock(mutex_);
    profile_.figures = figures_;
    profile_.figures.profiler_cpu = process_cpu_time();
}

}  // namespace pyprof
