// SPDX-License-Identifier: Apache-2.0
//
// What a native stack costs, against the ways of others, on one running thread and in one run:
//
//   native_cost PID [STOPS [FILE]]
//
// Each round stops the thread four times, for nothing, for a copy, for libdwfl and for libunwind with its
// cache. The copy is unwound after the thread runs again, once as it comes and once more warm. FILE gets a line for
// each of the first two stops, "bare|copy BEGIN END" in nanoseconds of CLOCK_MONOTONIC, for whoever knows what the thread
// saw of them: tests/bench/native runs it on such a thread and prints the table.
#include "base/clock.h"
#include "native/stack_copier.h"
#include "native/unwinder.h"
#include "support/reference_unwinder.h"
#include "target/live_target.h"

#include <fmt/format.h>

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

using namespace pyprof;
using namespace pyprof::test;

namespace {

using std::chrono::nanoseconds;

class Series {
public:
    void add(nanoseconds time) { values_.push_back(static_cast<double>(time.count()) / 1000); }
    double at(double share) {
        if (values_.empty()) return 0;
        std::sort(values_.begin(), values_.end());
        return values_[std::min(values_.size() - 1,
                                static_cast<std::size_t>(share * static_cast<double>(values_.size())))];
    }
    void print(const char* name) { fmt::print("{}\t{:.2f}\t{:.2f}\n", name, at(0.5), at(0.99)); }

private:
    std::vector<double> values_;
};

template <class Work>
void timed(Series& series, Work work) {
    const auto start = monotonic_now();
    work();
    series.add(monotonic_now() - start);
}

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

void note(const File& file, const char* kind, nanoseconds began) {
    if (file) fmt::print(file.get(), "{} {} {}\n", kind, began.count(), monotonic_now().count());
}

int run(pid_t pid, int stops, const File& file) {
    auto target = open_live_target(pid);
    if (!target) {
        fmt::print(stderr, "{}\n", target.error().message);
        return 1;
    }
    // As the recorder's thread has it.
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
    ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
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
        auto began = monotonic_now();
        if (stopper.stop(pid, kPatience)) timed(bare, [&] { stopper.resume(); });
        note(file, "bare", began);
        ::nanosleep(&pause, nullptr);
        began = monotonic_now();
        if (!stopper.stop(pid, kPatience)) continue;
        bool is_copied = false;
        Unwound unwound;
        timed(held, [&] {
            is_copied = copier.copy_stopped(pid, stopper.read_registers(), {}, copy).outcome == CopyOutcome::kCopied;
            stopper.resume();
        });
        if (is_copied) {
            frames.clear();
            timed(first, [&] { unwound = unwinder.unwind(copy, frames); });
        }
        ::nanosleep(&pause, nullptr);
        note(file, "copy", began);
        if (!is_copied) continue;
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
    fmt::print("stacks\t{}\nframes\t{:.1f}\ncomplete_percent\t{:.3f}\n", done,
               static_cast<double>(depth) / static_cast<double>(done),
               100.0 * static_cast<double>(complete) / static_cast<double>(done));
    bare.print("bare");
    held.print("copy");
    first.print("first");
    warm.print("warm");
    dwfl.print("libdwfl");
    cached.print("libunwind");
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        fmt::print(stderr, "usage: native_cost PID [STOPS [FILE]]\n");
        return 2;
    }
    File file(count > 3 ? std::fopen(arguments[3], "w") : nullptr);
    return run(std::atoi(arguments[1]), count > 2 ? std::atoi(arguments[2]) : 2000, file);
}
