// SPDX-License-Identifier: Apache-2.0
//
// What a native stack costs, against the ways of others, on one running thread and in one run:
//
//   native_cost PID [STOPS]
//
// Each round stops the thread four times, for nothing, for a copy, for libdwfl and for libunwind with its
// cache. The copy is unwound after the thread runs again, once as it comes and once more warm.
#include "base/clock.h"
#include "native/stack_copier.h"
#include "native/unwinder.h"
#include "support/reference_unwinder.h"
#include "target/live_target.h"

#include <fmt/format.h>

#include <time.h>
#include <algorithm>
#include <cstdlib>

using namespace pyprof;
using namespace pyprof::test;

namespace {

class Series {
public:
    void add(std::chrono::nanoseconds time) { values_.push_back(static_cast<double>(time.count()) / 1000); }
    double at(double share) {
        if (values_.empty()) return 0;
        std::sort(values_.begin(), values_.end());
        return values_[std::min(values_.size() - 1,
                                static_cast<std::size_t>(share * static_cast<double>(values_.size())))];
    }
    void print(const char* name, Series& base) {
        fmt::print("{:34} {:10.2f} {:10.2f} {:8.1f} x\n", name, at(0.5), at(0.99), at(0.5) / base.at(0.5));
    }

private:
    std::vector<double> values_;
};

template <class Work>
void timed(Series& series, Work work) {
    const auto start = monotonic_now();
    work();
    series.add(monotonic_now() - start);
}

int run(pid_t pid, int stops) {
    auto target = open_live_target(pid);
    if (!target) {
        fmt::print(stderr, "{}\n", target.error().message);
        return 1;
    }
    ThreadStopper stopper(traced_process(pid));
    Unwinder unwinder(**target);
    StackCopier copier((*target)->memory(), unwinder.modules(), stopper);
    LibdwflReference libdwfl(pid);
    LibunwindReference libunwind;
    StackCopy copy;
    std::vector<NativeFrame> frames;
    Series bare, held, first, warm, dwfl, cached;
    std::size_t depth = 0;
    std::size_t complete = 0;
    std::size_t done = 0;
    constexpr auto kPatience = std::chrono::milliseconds(100);
    for (int i = 0; i < stops; ++i) {
        const timespec pause{0, 500'000};
        ::nanosleep(&pause, nullptr);
        if (stopper.stop(pid, kPatience)) timed(bare, [&] { stopper.resume(); });
        const auto copied = copier.copy_running(pid, {}, copy, kPatience);
        if (copied.outcome != CopyOutcome::kCopied) continue;
        held.add(copied.stopped);
        frames.clear();
        Unwound unwound;
        timed(first, [&] { unwound = unwinder.unwind(copy, frames); });
        copier.learn(pid, unwound, frames);
        frames.clear();
        timed(warm, [&] { unwinder.unwind(copy, frames); });
        depth += frames.size();
        ++done;
        if (unwound.is_complete()) ++complete;
        if (stopper.stop(pid, kPatience)) timed(dwfl, [&] { libdwfl.unwind(pid); });
        stopper.resume();
        if (stopper.stop(pid, kPatience)) timed(cached, [&] { libunwind.unwind(pid); });
        stopper.resume();
    }
    if (done == 0) return 1;
    fmt::print("{} stacks of {} frames on average, {:.2f} % to the root\n", done, depth / done,
               100.0 * static_cast<double>(complete) / static_cast<double>(done));
    fmt::print("{:34} {:>10} {:>10} {:>10}\n", "us", "median", "99 %", "to warm");
    bare.print("detach alone", warm);
    held.print("stopped: registers and stack", warm);
    first.print("unwinding, once", warm);
    warm.print("unwinding, again", warm);
    dwfl.print("libdwfl, attached, stopped", warm);
    cached.print("libunwind, cached, stopped", warm);
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        fmt::print(stderr, "usage: native_cost PID [STOPS]\n");
        return 2;
    }
    return run(std::atoi(arguments[1]), count > 2 ? std::atoi(arguments[2]) : 2000);
}
