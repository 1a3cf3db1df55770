// SPDX-License-Identifier: Apache-2.0
//
// What an object is, told by its type: the question that is asked before every cast. A type is judged once, by
// its name, its flags and its bases, and then known by its address.
#pragma once

#include <pyprof/layout.h>
#include <pyprof/memory.h>

#include <tsl/robin_map.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pyprof {

enum class ObjectKind : std::uint8_t {
    kUnreadable,  // no object stands there, as far as can be told
    kOther,
    kNone,
    kCoroutine,
    kGenerator,
    kAsyncGenerator,
    kAwaitWrapper,  // asend(), athrow(), aclose(), anext(it, default), coroutine.__await__(): one pointer
    kFutureIter,    // what awaiting a Future awaits
    kTask,          // _asyncio.Task and its subclasses
    kFuture,        // _asyncio.Future and its subclasses, Task excepted
    kPythonTask,    // asyncio.tasks._PyTask: attributes
    kPythonFuture,
    kTrioTask,      // trio.lowlevel.Task
    kTaskWakeup,    // TaskWakeupMethWrapper, 3.8 and 3.9
    kMethod,
    kBuiltinMethod,
    kFunction,
    kPartial,
    kList,
    kTuple,
    kCell,
    kSet,
    kDict,
    kDeque,
    kWeakref,
    kStr,
    kInt,
    kFrame,     // a frame object
    kGreenlet,  // greenlet.greenlet and what is derived of it
};
constexpr bool is_future(ObjectKind kind) { return kind >= ObjectKind::kTask && kind <= ObjectKind::kPythonFuture; }
constexpr bool is_task(ObjectKind kind) {
    return kind == ObjectKind::kTask || kind == ObjectKind::kPythonTask || kind == ObjectKind::kTrioTask || kind == ObjectKind::kGreenlet;
}

// Whether an object can stand there: aligned, and within what a program's addresses are on x86-64.
constexpr bool can_be_object(Address address) {
    return raw(address) >= 4096 && raw(address) < (1ULL << 48) && (raw(address) & 7) == 0;
}

class ObjectKinds {
public:
    explicit ObjectKinds(const Layout& layout) : layout_(&layout) {}

    // The types by which tasks and futures are known; null: there is none. Forgets what was judged before.
    struct AsyncioTypes {
        Address task{};
        Address future{};
        Address python_task{};
        Address python_future{};
        Address trio_task{};
    };
    void set_asyncio_types(const AsyncioTypes& types);

    [[nodiscard]] ObjectKind kind_of(Memory& memory, Address object);
    [[nodiscard]] ObjectKind kind_of_type(Memory& memory, Address type);
    // "Future", "_GatheringFuture", "Queue": what follows the last dot of tp_name; empty where unknown.
    [[nodiscard]] std::string name_of_type(Memory& memory, Address type);

    // Judges classes of the program anew: one may have died and another stand in its place. Those of C live on.
    void forget_python_classes();

private:
    struct Judged {
        ObjectKind kind = ObjectKind::kOther;
        bool is_python_class = false;
        std::string name;
    };
    const Judged* judge(Memory& memory, Address type);
    [[nodiscard]] ObjectKind kind_by_base(Memory& memory, Address type) const;
    [[nodiscard]] bool is_greenlet_type(Memory& memory, Address type) const;

    const Layout* layout_;
    AsyncioTypes types_;
    tsl::robin_map<std::uint64_t, Judged> judged_;
};

}  // namespace pyprof
