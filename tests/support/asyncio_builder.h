// SPDX-License-Identifier: Apache-2.0
//
// A small asyncio in a FakeMemory, for layouts up to 3.13 (from 3.14 on a section of a file is needed): an
// interpreter with one task that awaits another, which awaits a future through a chain of coroutines.
#pragma once

#include "support/process_builder.h"

#include "python/asyncio_layouts.h"

#include <string>
#include <vector>

namespace pyprof::test {

class AsyncioBuilder {
public:
    explicit AsyncioBuilder(ProcessBuilder& builder);

    // A suspended coroutine of that name, which awaits this object.
    Address coroutine(const std::string& name, Address awaits);
    // FutureIter over a future.
    Address future_iter(Address future);
    Address future();
    struct TaskSpec {
        std::string name;
        Address coroutine{};
        Address fut_waiter{};
    };
    Address task(const TaskSpec& spec);
    // The callback by which `awaiter` waits for `future`.
    void add_wakeup(Address future, Address awaiter);
    // Puts them into the interpreter's sys.modules["asyncio.tasks"].
    void publish(Address interpreter, const std::vector<Address>& tasks);

    const AsyncioLayout& layout() const { return asyncio_; }

private:
    Address set_of(const std::vector<Address>& members);

    ProcessBuilder& builder_;
    AsyncioLayout asyncio_;
    Address future_type_{}, task_type_{}, coroutine_type_{}, iter_type_{}, weakref_type_{}, set_type_{};
    Address wakeup_type_{}, wakeup_definition_{};
};

}  // namespace pyprof::test
