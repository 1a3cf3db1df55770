// SPDX-License-Identifier: Apache-2.0
//
// What AsyncioReader keeps to itself, for the files that it consists of.
#pragma once

#include "python/asyncio_tasks.h"
#include "python/gc_lists.h"

#include <algorithm>
#include <chrono>

namespace pyprof {

constexpr std::size_t kMostAsyncTasks = 200'000;

inline void sort_once(std::vector<std::uint64_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// By what a task is known again: another one at its address differs in one of these, nearly always.
struct TaskKey {
    Address task{}, coroutine{}, context{};
    std::uint64_t identity = 0;
    friend bool operator==(const TaskKey&, const TaskKey&) = default;
};
inline TaskKey key_of(const AsyncTask& task) { return {task.address, task.coroutine, task.context, task.identity}; }

struct AsyncioReader::Interpreter {
    Interpreter(const Layout& layout, const AsyncioLayout& asyncio, Memory& memory)
        : kinds(layout), coroutines(layout, asyncio.coroutine, kinds), awaiters(layout, asyncio, kinds), greenlets(layout, kinds, memory), work(layout, kinds, awaiters), holders(layout, kinds), gc(layout, memory) {}

    Address address{};
    AsyncioModules modules;
    bool has_asyncio = true;  // false: trio or gevent alone
    std::optional<TrioModule> trio;
    ObjectKinds kinds;
    CoroutineReader coroutines;
    AwaiterFinder awaiters;
    GreenletReader greenlets;
    WorkFinder work;
    TaskHolders holders;
    std::optional<GeventModule> gevent;
    struct Hub {
        Address address{};
        Address main{};  // greenlet of its thread
        std::uint64_t pthread = 0;
        Address queue{};  // of its loop: what it is to call at once; null where that is not known
    };
    std::vector<Hub> hubs;
    std::vector<Address> greenlets_found;  // all others, when they were looked for last
    std::vector<Address> waited_at;        // what they may wait at
    tsl::robin_map<std::uint64_t, bool> types_waited_at;
    tsl::robin_map<std::uint64_t, Address> waits_at;  // of this sweep, by greenlet
    tsl::robin_map<std::uint64_t, Address> callbacks;  // of this look, by the greenlet that each is to switch to
    bool has_greenlets = false;
    struct Main {  // greenlet of a thread
        Address loop{};  // of asyncio, which ran in it
        Address address{};
    };
    tsl::robin_map<std::uint64_t, Main> mains;  // by thread
    GcLists gc;
    std::chrono::nanoseconds next_walk{0}, next_new{0};
    std::vector<Address> listed;  // tasks of this look, each once
    // Of tasks that nobody awaits: the one that was found to hold it. Null: none was.
    struct Held {
        TaskKey task, holder;
    };
    tsl::robin_map<std::uint64_t, Held> held;
    std::chrono::nanoseconds next_search{0};
    std::chrono::nanoseconds search_took{0};  // of processor time, with those in vain before it
    int searches_in_vain = 0;  // in a row
    // Up to 3.11 a loop's holder names the process: a forked child inherits one that is not its own. 0: not known.
    pid_t own_pid = 0;
};

struct AsyncioReader::Found {
    AsyncTask task;
    Address main_greenlet{};  // of its thread, where a greenlet is among its frames
    Address name{};
    bool name_is_int = false;
    bool is_pending = false;
    std::vector<FoundAwaiter> awaiters;
};

// In part_: the pages that the last reading by this key came to are copied in one call, and those of this one noted.
template <class Read>
void AsyncioReader::read_known_pages(Address key, Read&& read) {
    pages_ = &part_;
    std::vector<std::uint64_t>& pages = paths_pages_[raw(key)];
    part_.begin_part(pages);
    part_.start_log();
    read();
    part_.stop_log();
    pages.clear();
    part_.add_log_pages(pages);
    sort_once(pages);
}

struct AsyncioReader::Node {
    enum class Verdict : std::uint8_t {
        kWhole,  // read as of the moment
        kGone,   // no task, or done
        kMoved,  // its loop moved, or it stood where nothing was copied, or it contradicts itself
    };
    Found found;
    std::vector<RawFrame> frames;      // leaf first
    std::vector<std::uint64_t> pages;  // where it stood; some more than once
    Verdict verdict = Verdict::kMoved;
    bool is_missing = false;  // a page was not among those copied
    bool is_start = false;    // asked for, not only come to over its tasks
    bool is_in_doubt = false;  // it, or a task above it, is not of the moment
    std::size_t first_edge = 0;
    std::size_t edge_count = 0;
    TaskIndex kept_as = 0;
};

}  // namespace pyprof
