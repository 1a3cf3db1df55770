// SPDX-License-Identifier: Apache-2.0
//
// A process that tests make up: a FakeMemory, a file that holds _PyRuntime, and what the kernel says of
// each thread. FakePython puts an interpreter of any known layout into it, ready to be attached to.
#pragma once

#include "support/fake_memory.h"
#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <pyprof/target.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pyprof::test {

class FakeTarget final : public Target {
public:
    struct Thread {
        Activity activity{Activity::Kind::kRunning, -1, {}, {}, {}};
        std::uint64_t switches = 1;
        std::string name;
    };
    static constexpr pid_t kPid = 100;

    explicit FakeTarget(std::string executable) : executable_(std::move(executable)) {}

    void set_runtime(Address runtime) { runtime_ = runtime; }
    // A section of the file that all of the memory is mapped of.
    void set_section(std::string name, Address at, std::uint64_t size) { sections_[std::move(name)] = {at, size}; }
    // Makes the thread on first use. A thread that is not there is gone.
    Thread& thread(pid_t tid) { return threads_[tid]; }
    void end_thread(pid_t tid) { threads_.erase(tid); }
    void block(pid_t tid);  // it sleeps, and has been switched away from
    void wake(pid_t tid);
    void end() { has_ended_ = true; }
    // The stack of a thread; that of the main one has a name.
    void add_stack(Address begin, Address end, bool is_main);

    [[nodiscard]] FakeMemory& fake() { return memory_; }
    [[nodiscard]] std::size_t looks() const { return looks_; }  // at activities and switch counts
    [[nodiscard]] std::vector<pid_t>& forgotten() { return forgotten_; }

    pid_t pid() const override { return kPid; }
    Memory& memory() override { return memory_; }
    Result<ProcessFacts> read_facts() override;
    Result<std::vector<Mapping>> read_mappings() override;
    Result<std::unique_ptr<ModuleFile>> open_module(const Mapping& mapping) override;
    Result<std::vector<ThreadId>> read_threads() override;
    Activity read_activity(pid_t tid) override;
    std::optional<std::uint64_t> read_switch_count(pid_t tid) override;
    char read_state_letter(pid_t tid) override;
    std::string read_thread_name(pid_t tid) override;
    void forget_thread(pid_t tid) override { forgotten_.push_back(tid); }
    bool has_ended() override { return has_ended_; }
    Result<std::unique_ptr<Stop>> stop() override { return std::make_unique<Stop>(); }

private:
    std::string executable_;
    FakeMemory memory_;
    Address runtime_{};
    std::map<std::string, std::pair<Address, std::uint64_t>, std::less<>> sections_;
    std::map<pid_t, Thread> threads_;
    std::size_t looks_ = 0;
    std::vector<pid_t> forgotten_;
    bool has_ended_ = false;
    std::vector<Mapping> stacks_;
};

// One interpreter with its runtime; threads are added one by one.
class FakePython {
public:
    explicit FakePython(const KnownLayout& known, const std::string& test_directory);

    struct ThreadSpec {
        pid_t tid = FakeTarget::kPid;
        Address leaf{};
        ProcessBuilder::DataStack stack;
        bool holds_gil = false;
    };
    // Known to the kernel and put at the head of the interpreter's list, as CPython does.
    Address add_thread(const ThreadSpec& spec);
    void remove_thread(Address thread);  // from the list alone
    void set_tid(Address thread, pid_t tid);  // the same state and pthread now belong to another thread
    void set_pthread(Address thread, Address pthread, pid_t tid);  // where what pthread_self() points to stands
    [[nodiscard]] Address pthread_of(Address thread) const { return pthreads_.at(raw(thread)); }

    const Layout& layout() const { return builder.layout(); }

    FakeTarget target;
    ProcessBuilder builder;
    Address interpreter{};
    Address runtime{};

private:
    std::vector<Address> threads_;  // newest first
    std::map<std::uint64_t, Address> pthreads_;
};

}  // namespace pyprof::test
