// SPDX-License-Identifier: Apache-2.0
//
// How often the kernel alone copies these ranges: one process_vm_readv in a loop, and nothing done with
// the bytes. The ceiling of every sampler that reads so. It knows nothing of pyprof and shares no code.
// With a rate it sleeps between the calls: what a sampler of that rate costs at the very least.
//
// Usage: bare_loop PID SECONDS HZ ADDRESS:BYTES...   HZ 0: prints calls a second; else per cent of a core
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMaxRanges = 1024;  // the kernel's limit, UIO_MAXIOV
constexpr std::size_t kMaxBytes = 64U << 20;
constexpr int kCallsBetweenClockReads = 1000;

struct Range {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
};

bool parse_range(const std::string& text, Range& range) {
    char* end = nullptr;
    range.address = std::strtoull(text.c_str(), &end, 0);
    if (*end != ':') return false;
    range.bytes = std::strtoull(end + 1, &end, 0);
    return *end == '\0' && range.bytes > 0 && range.bytes <= kMaxBytes;
}

iovec as_iovec(std::uintptr_t address, std::size_t bytes) {
    iovec entry{};
    std::memcpy(&entry.iov_base, &address, sizeof address);  // an address of another process
    entry.iov_len = bytes;
    return entry;
}

struct Call {
    pid_t pid = 0;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<iovec> remote;
    std::vector<iovec> local;
    std::size_t wanted = 0;

    void add(const Range& range) {
        buffers.emplace_back(range.bytes);
        remote.push_back(as_iovec(range.address, range.bytes));
        local.push_back({buffers.back().data(), range.bytes});
        wanted += range.bytes;
    }

    // Ends the program when not all can be read: what would be measured then is something else.
    void make() const {
        const ssize_t copied = process_vm_readv(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
        if (copied == static_cast<ssize_t>(wanted)) return;
        std::fprintf(stderr, "bare_loop: %zd of %zu bytes could be read\n", copied, wanted);
        std::exit(1);
    }
};

double calls_a_second(const Call& call, std::chrono::duration<double> duration) {
    std::uint64_t calls = 0;
    const auto began = std::chrono::steady_clock::now();
    std::chrono::duration<double> elapsed{};
    while (elapsed < duration) {
        for (int i = 0; i < kCallsBetweenClockReads; ++i) call.make();
        calls += kCallsBetweenClockReads;
        elapsed = std::chrono::steady_clock::now() - began;
    }
    return static_cast<double>(calls) / elapsed.count();
}

double seconds_of(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double percent_of_a_core(const Call& call, double seconds, double hz) {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    const double began = seconds_of(CLOCK_MONOTONIC);
    const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (double due = began; due < began + seconds; due += 1 / hz) {
        const auto whole = static_cast<time_t>(due);
        const timespec until{whole, static_cast<long>((due - static_cast<double>(whole)) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
        call.make();
    }
    return 100 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds_of(CLOCK_MONOTONIC) - began);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5 || static_cast<std::size_t>(argc) - 4 > kMaxRanges) {
        std::fprintf(stderr, "usage: bare_loop PID SECONDS HZ ADDRESS:BYTES...\n");
        return 2;
    }
    Call call;
    call.pid = static_cast<pid_t>(std::atoi(argv[1]));
    const double seconds = std::atof(argv[2]);
    const double hz = std::atof(argv[3]);
    for (int i = 4; i < argc; ++i) {
        Range range;
        if (!parse_range(argv[i], range)) {
            std::fprintf(stderr, "bare_loop: no range: %s\n", argv[i]);
            return 2;
        }
        call.add(range);
    }
    if (hz > 0) {
        std::printf("%.3f\n", percent_of_a_core(call, seconds, hz));
    } else {
        std::printf("%.0f\n", calls_a_second(call, std::chrono::duration<double>(seconds)));
    }
    return 0;
}
