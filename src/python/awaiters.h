// SPDX-License-Identifier: Apache-2.0
//
// Who awaits a task or future, told by the task itself: its done-callbacks lead, over the futures of gather(),
// wait(), shield() and the like, to the tasks that they wake; from 3.14 on fut_awaited_by says it, too. One
// rule covers all versions and most helpers of other libraries. What is found is a claim until the awaiter's
// own fut_waiter agrees (AsyncioReader).
#pragma once

#include "python/asyncio_layouts.h"
#include "python/object_kinds.h"
#include "python/task_graph.h"

#include <pyprof/memory.h>

#include <tsl/robin_map.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pyprof {

struct FoundAwaiter {
    Address task{};
    EdgeSource source = EdgeSource::kAwait;
    // The future for which the task waits if it waits for this one at all.
    Address through{};
    // Its callback wakes the task: the task must wait for `through`, or the two were read at different times.
    bool must_wait = true;
    Address group{};  // of asyncio or anyio, to which the task belongs
};

class AwaiterFinder {
public:
    AwaiterFinder(const Layout& layout, const AsyncioLayout& asyncio, ObjectKinds& kinds)
        : layout_(&layout), asyncio_(&asyncio), kinds_(&kinds) {}

    // What was remembered of groups is of an earlier look.
    void begin_look() { groups_.clear(); }
    // Whether the future that was looked at last is what a loop runs until it is done: no task has made it.
    [[nodiscard]] bool is_loops_own() const { return is_loops_own_; }
    // The future of concurrent.futures that its end will fill, what run_coroutine_threadsafe() gave; null: there is none.
    [[nodiscard]] Address filled() const { return filled_; }
    // Appends the awaiters of a task or future of this kind, each once for each way to it.
    void find(Memory& memory, Address future, ObjectKind kind, std::vector<FoundAwaiter>& found);
    // The same of a future of concurrent.futures.
    void find_of_concurrent(Memory& memory, Address future, std::vector<FoundAwaiter>& found);
    // As ObjectKinds::forget_python_classes().
    void forget_functions() { roles_.clear(); }

private:
    // What a callback is for, by the name and file of its code.
    enum class Role : std::uint8_t {
        kOther,
        kWakeup,        // asyncio.tasks._PyTask.__wakeup
        kGather,
        kOnCompletion,  // of wait(), and of as_completed() up to 3.12
        kShield,
        kReleaseWaiter,
        kChain,
        kTaskGroup,
        kAsCompleted,   // _AsCompletedIterator, 3.13 on
        kRunUntilComplete,
        kAnyio,         // TaskGroup._spawn.<locals>.task_done
    };
    struct Open {  // a future whose awaiters are still to be found
        Address future{};
        ObjectKind kind = ObjectKind::kFuture;
        EdgeSource source = EdgeSource::kAwait;
        bool is_first = false;
    };
    struct Group {
        Address parent{};
        Address completed{};
    };

    [[nodiscard]] Address pointer(Memory& memory, Address object, Offset offset) const;
    void begin(Address future);
    void follow(Memory& memory, std::vector<FoundAwaiter>& found);
    [[nodiscard]] std::vector<Address> items_of(Memory& memory, Address list) const;
    void open(Memory& memory, Address future, EdgeSource source);
    void open_concurrent(Memory& memory, Address future, const Open& from, std::vector<FoundAwaiter>& found);
    void open_queue(Memory& memory, Address queue, EdgeSource source);
    void take_callbacks(Memory& memory, const Open& from, std::vector<FoundAwaiter>& found);
    void take_list(Memory& memory, Address list, const Open& from, std::vector<FoundAwaiter>& found);
    void take_callback(Memory& memory, Address callback, const Open& from, std::vector<FoundAwaiter>& found);
    void take_method(Memory& memory, Address method, const Open& from, std::vector<FoundAwaiter>& found);
    void take_function(Memory& memory, Address function, const Open& from, std::vector<FoundAwaiter>& found);
    void take_partial(Memory& memory, Address partial, const Open& from);
    void take_awaited_by(Memory& memory, const Open& from, std::vector<FoundAwaiter>& found);
    void take_awaiting_object(Memory& memory, Address object, const Open& from, std::vector<FoundAwaiter>& found);
    [[nodiscard]] Role role_of(Memory& memory, Address function);
    [[nodiscard]] bool is_task_wakeup(Memory& memory, Address method_definition);
    [[nodiscard]] Group group_of(Memory& memory, Address group);

    const Layout* layout_;
    const AsyncioLayout* asyncio_;
    ObjectKinds* kinds_;
    std::vector<Open> open_;
    std::vector<Address> visited_;
    bool is_loops_own_ = false;
    Address filled_{};
    std::size_t left_ = 0;  // callbacks that may still be looked at
    tsl::robin_map<std::uint64_t, Role> roles_;      // by code object
    tsl::robin_map<std::uint64_t, bool> wakeups_;    // by PyMethodDef
    tsl::robin_map<std::uint64_t, Group> groups_;    // of this look
};

}  // namespace pyprof
