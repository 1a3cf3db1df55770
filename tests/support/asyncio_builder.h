// SPDX-License-Identifier: Apache-2.0
//
// A small asyncio in a FakeMemory: tasks, the coroutines that they are at, and the callbacks by which they wait for each
// other. From 3.14 on its places are made up, and put into a section of the target's file, where readers look for them.
#pragma once

#include "support/fake_target.h"
#include "support/process_builder.h"

#include "python/asyncio_layouts.h"
#include "python/frames.h"

#include <set>
#include <string>
#include <vector>

namespace pyprof::test {

class AsyncioBuilder {
public:
    explicit AsyncioBuilder(ProcessBuilder& builder);

    // A suspended coroutine of that name, which awaits this object.
    Address coroutine(const std::string& name, Address awaits, const std::u32string& file = U"/t/file.py");
    // It goes on: it executes, or stands at an await again, behind so many local variables.
    void set_executing(Address coroutine);
    void set_awaiting(Address coroutine, Address awaits, std::uint64_t locals = 0);
    // It holds this in a variable.
    void set_variable(Address coroutine, Address object);
    // Its frame, as it stands in memory.
    RawFrame frame_of(Address coroutine);
    // FutureIter over a future.
    Address future_iter(Address future);
    Address future();
    struct TaskSpec {
        std::string name;
        Address coroutine{};
        Address fut_waiter{};
    };
    Address task(const TaskSpec& spec);
    // The callback by which `awaiter` waits for `future`, behind those that it has.
    void add_wakeup(Address future, Address awaiter);
    // ... that of gather(), whose own future is `outer`.
    void add_gather(Address future, Address outer);
    // The callback of a future whose end fills another one; of a future of asyncio, of concurrent.futures.
    Address chain_to(Address destination);
    void add_chain(Address future, Address destination) { add_callback(future, chain_to(destination)); }
    void clear_callbacks(Address future);
    // A task or a future that has its result.
    void finish(Address future) { builder_.put_field(future, asyncio_.future.state, 2, 4); }
    void revive(Address future) { builder_.put_field(future, asyncio_.future.state, 0, 4); }
    // Puts them into the interpreter's sys.modules["asyncio.tasks"].
    // ... and names of other modules that are loaded.
    void publish(Address interpreter, const std::vector<Address>& tasks, const std::vector<std::string>& others = {});
    // From 3.14 on: puts them into the circle that a thread keeps of its tasks.
    void link(Address thread, const std::vector<Address>& tasks);
    // From 3.14 on: the section in which the places of all this stand.
    void publish_places(FakeTarget& target);
    // The loop that runs in the thread of a process.
    void set_loop(Address thread, Address loop, pid_t pid);
    // The task in whose step that loop is; after publish(). Null: it is in none.
    void set_current(Address thread, Address loop, Address task);
    // What the thread has counted: each callback of its loop counts.
    void set_count(Address thread, std::uint64_t count);

    const AsyncioLayout& layout() const { return asyncio_; }

private:
    void add_callback(Address future, Address callback);
    Address closure_of(const std::u32string& name, const std::u32string& file, Address held);
    Address set_of(const std::vector<Address>& members);
    [[nodiscard]] std::size_t task_size() const { return asyncio_.task.size; }

    ProcessBuilder& builder_;
    AsyncioLayout asyncio_;
    std::set<Address> with_variable_;  // codes
    Address future_type_{}, task_type_{}, coroutine_type_{}, iter_type_{}, weakref_type_{}, set_type_{};
    Address wakeup_type_{}, wakeup_definition_{}, tuple_type_{}, function_type_{}, cell_type_{}, current_tasks_{};
};

}  // namespace pyprof::test
