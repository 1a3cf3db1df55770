// SPDX-License-Identifier: Apache-2.0
//
// How often the kernel alone copies these ranges: one process_vm_readv in a loop, and nothing done with
// the bytes. The ceiling of every sampler that reads so. It knows nothing of pyprof and shares no code.
//
// Usage: bare_loop PID SECONDS ADDRESS:BYTES...   prints calls a second
#include <sys/uio.h>

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

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4 || static_cast<std::size_t>(argc) - 3 > kMaxRanges) {
        std::fprintf(stderr, "usage: bare_loop PID SECONDS ADDRESS:BYTES...\n");
        return 2;
    }
    const auto pid = static_cast<pid_t>(std::atoi(argv[1]));
    const std::chrono::duration<double> duration(std::atof(argv[2]));
    std::vector<std::vector<std::byte>> buffers;
    std::vector<iovec> remote;
    std::vector<iovec> local;
    std::size_t wanted = 0;
    for (int i = 3; i < argc; ++i) {
        Range range;
        if (!parse_range(argv[i], range)) {
            std::fprintf(stderr, "bare_loop: no range: %s\n", argv[i]);
            return 2;
        }
        buffers.emplace_back(range.bytes);
        remote.push_back(as_iovec(range.address, range.bytes));
        local.push_back({buffers.back().data(), range.bytes});
        wanted += range.bytes;
    }

    std::uint64_t calls = 0;
    const auto began = std::chrono::steady_clock::now();
    std::chrono::duration<double> elapsed{};
    while (elapsed < duration) {
        for (int i = 0; i < kCallsBetweenClockReads; ++i) {
            const ssize_t copied = process_vm_readv(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
            if (copied != static_cast<ssize_t>(wanted)) {
                std::fprintf(stderr, "bare_loop: %zd of %zu bytes could be read\n", copied, wanted);
                return 1;
            }
        }
        calls += kCallsBetweenClockReads;
        elapsed = std::chrono::steady_clock::now() - began;
    }
    std::printf("%.0f\n", static_cast<double>(calls) / elapsed.count());
    return 0;
}
