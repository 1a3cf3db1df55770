// SPDX-License-Identifier: Apache-2.0
//
// The truth that profiles are compared with: stops the whole target at random moments, walks the main
// thread's stack while nothing moves, lets it run again. Attaches once; decides nothing about what to
// believe, since a stopped stack is as it is. Its own faults are counted on stderr, never hidden.
//
// Usage: truth PID SECONDS RATE   prints collapsed stacks of function names, root first
#include "python/python_process.h"
#include "sample/dump.h"
#include "target/live_target.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>

namespace {

using pyprof::Dump;

std::string collapsed(const pyprof::DumpThread& thread) {
    std::string text;
    for (auto frame = thread.frames.rbegin(); frame != thread.frames.rend(); ++frame) {
        if (!text.empty()) text += ';';
        text += frame->name;
    }
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: truth PID SECONDS RATE\n");
        return 2;
    }
    auto target = pyprof::open_live_target(std::atoi(argv[1]));
    if (!target) {
        std::fprintf(stderr, "truth: %s\n", target.error().message.c_str());
        return 1;
    }
    auto process = pyprof::PythonProcess::attach(**target);
    if (!process) {
        std::fprintf(stderr, "truth: %s\n", process.error().message.c_str());
        return 1;
    }

    // Poisson: every moment is as likely as any other, whatever the target's rhythm.
    std::mt19937_64 random(std::random_device{}());
    std::exponential_distribution<double> pause(std::atof(argv[3]));
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto end = now() + std::chrono::duration<double>(std::atof(argv[2]));
    pyprof::DumpOptions options;
    options.with_lines = false;
    std::map<std::string, std::uint64_t> stacks;
    std::uint64_t faults = 0;
    while (now() < end) {
        std::this_thread::sleep_for(std::chrono::duration<double>(pause(random)));
        auto dump = pyprof::take_dump(**target, *process, options);
        if (!dump || dump->threads.empty()) {
            ++faults;
            continue;
        }
        ++stacks[collapsed(dump->threads.front())];
    }
    for (const auto& [stack, count] : stacks) std::printf("%s %llu\n", stack.c_str(), static_cast<unsigned long long>(count));
    std::fprintf(stderr, "%llu faults\n", static_cast<unsigned long long>(faults));
    return 0;
}
