// SPDX-License-Identifier: Apache-2.0
#include "sample/sleeper.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace pyprof {

namespace {

timespec timespec_of(std::chrono::nanoseconds moment) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(moment);
    timespec result{};
    result.tv_sec = seconds.count();
    result.tv_nsec = (moment - seconds).count();
    return result;
}

}  // namespace

Sleeper::Sleeper() {
    for (Timer& timer : timers_) timer.fd.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

bool Sleeper::Timer::set(Nanoseconds moment) {
    if (set_for == moment) return true;
    itimerspec when{};
    when.it_value = timespec_of(moment);
    if (!fd || ::timerfd_settime(fd.get(), TFD_TIMER_ABSTIME, &when, nullptr) != 0) return false;
    set_for = moment;
    return true;
}

void Sleeper::sleep_until(Nanoseconds until, Nanoseconds after) {
    Timer& timer = timers_[turn_];
    Timer& other = timers_[1 - turn_];
    if (!timer.set(until) || !other.set(after)) return sleep_once(until);
    std::uint64_t fired = 0;
    if (::read(timer.fd.get(), &fired, sizeof fired) != sizeof fired) return;
    timer.set_for = Nanoseconds{0};
    turn_ = 1 - turn_;
}

void Sleeper::sleep_once(Nanoseconds until) {
    const timespec moment = timespec_of(until);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr);  // a signal only wakes it early
}

}  // namespace pyprof
