// SPDX-License-Identifier: Apache-2.0
//
// The same stop, two unwinders: the frames are those that libunwind or libdwfl finds. PYPROF_STOPS says how
// often each interpreter is stopped.
#include "native/stack_copier.h"
#include "native/unwinder.h"
#include "target/live_target.h"

#include "../target/forked_child.h"
#include "layouts/interpreters.h"
#include "support/reference_unwinder.h"

#include <fmt/format.h>

#include <time.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// C code under Python under C code, in several libraries, with exceptions and generators.
constexpr auto kProgram = R"(
import sys, re, zlib, hashlib, json, functools, threading
def leaf(n):
    total = 0
    for i in range(n % 50):
        total += i
    zlib.compress(b'abc' * 50)
    hashlib.sha256(b'x' * 500).digest()
    json.loads('[1, {"a": [2.5, null]}]')
    try:
        int('x')
    except ValueError:
        pass
    return total
def deep(n):
    if n == 0:
        return leaf(7)
    if n % 3 == 0:
        return len(sorted([2, 1], key=lambda x: deep(n - 1) if x == 1 else 0))
    if n % 3 == 1:
        return len(re.sub('a', lambda match: str(deep(n - 1)), 'xax'))
    return sum(map(lambda x: deep(n - 1), [0])) + sum(leaf(x) for x in range(2))
def work():
    while True:
        deep(7)
threading.Thread(target=work, daemon=True).start()
print('ready', flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), __import__('os')._exit(0)), daemon=True).start()
work()
)";

int stops_of_each() {
    const char* text = std::getenv("PYPROF_STOPS");
    return text != nullptr ? std::atoi(text) : 100;
}

std::vector<Interpreter> chosen_interpreters() {
    std::vector<Interpreter> chosen;
    for (Interpreter& interpreter : interpreters(PYPROF_TEST_DIR)) {
        const bool is_usual =
            interpreter.name == "3.8" || interpreter.name == "3.12" || interpreter.name == "3.15";
        if (is_usual || std::getenv("PYPROF_STOPS") != nullptr) chosen.push_back(std::move(interpreter));
    }
    // Stripped, and without a library of its own.
    if (std::filesystem::exists("/usr/bin/python3"))
        chosen.push_back({"debian", "", "release", {"/usr/bin/python3"}});
    return chosen;
}

// libunwind 1.6 does not find the tables in the libraries of a newer Debian and skips frames there; libdwfl
// does.
std::unique_ptr<ReferenceUnwinder> reference_for(const Interpreter& interpreter, pid_t pid) {
    if (interpreter.command.front() == "chroot") return std::make_unique<LibdwflReference>(pid);
    return std::make_unique<LibunwindReference>();
}

std::string text_of(const std::vector<Address>& frames) {
    std::string text;
    for (const Address frame : frames) text += fmt::format(" {:x}", raw(frame));
    return text;
}

std::vector<Address> addresses_of(const std::vector<NativeFrame>& frames) {
    std::vector<Address> addresses;
    for (const NativeFrame& frame : frames) addresses.push_back(frame.pc);
    return addresses;
}

// Both unwinders at one thread, again and again.
class Comparison {
public:
    Comparison(pid_t pid, std::unique_ptr<ReferenceUnwinder> reference)
        : stopper_(traced_process(pid)), reference_(std::move(reference)) {
        auto target = open_live_target(pid);
        REQUIRE(target);
        target_ = std::move(*target);
        unwinder_.emplace(*target_);
        copier_.emplace(target_->memory(), unwinder_->modules(), stopper_);
    }

    [[nodiscard]] std::vector<ThreadId> threads() {
        return target_->read_threads().value_or(std::vector<ThreadId>());
    }

    // False when it could not be stopped.
    bool compare(pid_t tid) {
        if (!stopper_.stop(tid, std::chrono::seconds(10))) return false;
        const bool is_read = copier_->copy_stopped(tid, stopper_.read_registers(), {}, copy_).outcome == CopyOutcome::kCopied;
        const auto expected = reference_->unwind(tid);
        stopper_.resume();
        REQUIRE(is_read);
        frames_.clear();
        const Unwound unwound = unwinder_->unwind(copy_, frames_);
        copier_->learn(tid, unwound, frames_);
        ++compared;
        if (unwound.is_complete()) ++complete;
        // Where a thread has just been made and there are no tables we end, and the reference makes something up.
        const std::vector<Address> found = addresses_of(frames_);
        const auto differs = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
        const bool is_equal = differs.first == found.end() && (!unwound.is_complete() || differs.second == expected.end());
        // Now and then the reference gives up on the way where we come to the root: what it has is the same.
        const bool gave_up = unwound.is_complete() && differs.second == expected.end() && !is_equal;
        if (gave_up) {
            ++short_of_root;
        } else if (!is_equal) {
            ++different;
        }
        if ((!is_equal || !unwound.is_complete()) && ++shown_ <= 3) {
            WARN("end " << static_cast<int>(unwound.end) << text_of(found) << "\nreference"
                        << text_of(expected));
        }
        return true;
    }

    int compared = 0;
    int complete = 0;
    int different = 0;
    int short_of_root = 0;  // the reference

private:
    int shown_ = 0;
    std::unique_ptr<Target> target_;
    ThreadStopper stopper_;
    std::optional<Unwinder> unwinder_;
    std::optional<StackCopier> copier_;
    std::unique_ptr<ReferenceUnwinder> reference_;
    StackCopy copy_;
    std::vector<NativeFrame> frames_;
};

}  // namespace

TEST_CASE("unwinder: on each stop of an interpreter the frames are another unwinder's, down to the root") {
    const auto chosen = chosen_interpreters();
    if (chosen.empty()) WARN("skipped: there is no interpreter");
    for (const Interpreter& interpreter : chosen) {
        INFO(interpreter.name);
        PythonProgram program(interpreter, kProgram);
        REQUIRE_FALSE(program.read_until_ready().empty());
        Comparison comparison(program.pid(), reference_for(interpreter, program.pid()));
        for (int stops = stops_of_each(); comparison.compared < stops;) {
            const auto threads = comparison.threads();
            REQUIRE_FALSE(threads.empty());
            for (const ThreadId& thread : threads) comparison.compare(thread.tid);
            const timespec pause{0, 300'000 + comparison.compared % 7 * 50'000};
            ::nanosleep(&pause, nullptr);
        }
        CHECK(comparison.different == 0);
        CHECK(comparison.short_of_root * 100 <= comparison.compared);
        // A thread that has just been made runs through code of libc without tables.
        CHECK(comparison.complete * 100 >= comparison.compared * 99);
        if (std::getenv("PYPROF_STOPS") != nullptr)
            WARN(interpreter.name << ": " << comparison.compared << " stops, " << comparison.different
                                  << " differ, " << comparison.complete << " complete");
    }
}

namespace {

int signal_pipe[2];

void spin_in_handler(int) {
    const char byte = 'h';
    static_cast<void>(!::write(signal_pipe[1], &byte, 1));
    volatile bool is_forever = true;
    while (is_forever) {
    }
}

int compare_and_raise(const void*, const void*) {
    ::raise(SIGUSR1);
    return 0;
}

}  // namespace

TEST_CASE("unwinder: a handler is unwound through its signal frame into what it interrupted") {
    REQUIRE(::pipe(signal_pipe) == 0);
    const ForkedChild child([] { ::signal(SIGUSR1, spin_in_handler); },
                            [] {
                                int numbers[2] = {2, 1};
                                std::qsort(numbers, 2, sizeof numbers[0], compare_and_raise);
                                return 'x';
                            });
    child.send_ping();
    char byte = 0;
    REQUIRE(::read(signal_pipe[0], &byte, 1) == 1);
    Comparison comparison(child.pid(), std::make_unique<LibunwindReference>());
    for (int i = 0; i < 20; ++i) REQUIRE(comparison.compare(child.pid()));
    CHECK(comparison.different == 0);
    CHECK(comparison.complete == 20);
    ::close(signal_pipe[0]);
    ::close(signal_pipe[1]);
}
