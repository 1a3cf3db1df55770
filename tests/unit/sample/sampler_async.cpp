// SPDX-License-Identifier: Apache-2.0
//
// The sampler's own part in asyncio: what a loop's thread shows in a tick beside its tasks. Every layout.
#include "sampling.h"

#include "support/asyncio_builder.h"
#include "support/frame_holding.h"

#include <algorithm>

using namespace pyprof;
using namespace pyprof::test;

namespace {

const std::u32string kLoop = U"/lib/asyncio/base_events.py";

// A thread that runs a loop, with one task that waits in idle().
struct LoopSampling : Sampling {
    struct Function {
        std::string name;
        std::u32string file = U"/t/file.py";
        Address self = kNullAddress;  // what its one variable holds
    };

    explicit LoopSampling(const KnownLayout& known) : Sampling(known), asyncio(builder()) {
        asyncio.publish_places(python.target);
        if (on_data_stack()) stack = builder().data_stack();
        thread = python.add_thread({kTid, stand_in({{"main"}, {"run_forever", kLoop}, {"_run_once", kLoop}, {"select", U"/lib/selectors.py"}}), stack, false});
        loop = builder().object(64);
        asyncio.set_loop(thread, loop, FakeTarget::kPid);
        asyncio.set_count(thread, 1);
        const Address future = asyncio.future();
        task = asyncio.task({"Task-1", asyncio.coroutine("idle", asyncio.future_iter(future)), future});
        builder().put_field(task, asyncio.layout().future.loop, raw(loop));
        asyncio.add_wakeup(future, task);
        asyncio.publish(python.interpreter, {task});
        async.mode = AsyncMode::kAll;
    }
    // The thread's stack, root first; returns its leaf.
    Address stand_in(const std::vector<Function>& functions) {
        if (on_data_stack()) stack.top = stack.chunk + 32;
        const Address leaf = put_frames(functions, stack);
        if (thread != kNullAddress) builder().set_leaf(thread, leaf);
        return leaf;
    }
    Address put_frames(const std::vector<Function>& functions, ProcessBuilder::DataStack& on) {
        const Layout::Frame& fields = python.layout().frame;
        Address back = has(fields.owner_cstack) || has(fields.owner_interpreter) ? builder().shim(kNullAddress) : kNullAddress;
        for (std::size_t i = 0; i < functions.size(); ++i) {
            const bool is_leaf = i + 1 == functions.size();
            ProcessBuilder::FrameSpec spec;
            spec.code = code_of(functions[i]);
            spec.index = 8;
            spec.is_entry = i == 0;
            spec.back = back;
            spec.stack = is_leaf ? (has(fields.stackpointer) ? 0 : -1) : (has(fields.stackpointer) ? 0x7f1000000000 : 1);
            back = on_data_stack() ? builder().push_frame(on, spec, 2) : builder().heap_frame(spec);
            if (functions[i].self != kNullAddress) builder().memory().put(back + at(fields.localsplus), raw(functions[i].self));
        }
        return back;
    }
    // Another thread, which sleeps until this future of concurrent.futures is done.
    void add_sleeper(Address future) {
        ProcessBuilder::DataStack on;
        if (on_data_stack()) {
            on = builder().data_stack();
            on.top = on.chunk + 32;
        }
        const Function result{"result", U"/lib/concurrent/futures/_base.py", future};
        const Address leaf = put_frames({{"worker"}, result, {"wait", U"/lib/threading.py"}}, on);
        const Address names[] = {builder().str("self")};
        builder().put_field(code_of(result), python.layout().code.local_names, raw(builder().tuple(names)));
        builder().put_field(code_of(result), python.layout().code.nlocalsplus, 1, 4);
        python.add_thread({kSleeper, leaf, on, false});
        python.target.block(kSleeper);
    }
    Address code_of(const Function& function) {
        Address& known = codes[function.name];
        if (known != kNullAddress) return known;
        const Address plain = code(function.name);
        builder().put_field(plain, python.layout().code.filename, raw(builder().str(std::string(function.file.begin(), function.file.end()))));
        return known = plain;
    }
    // It sleeps now, in what it does.
    void sleep() { python.target.block(kTid); }
    // It woke, and sleeps now in a callback that its loop has called.
    void block_in_callback() {
        stand_in({{"main"}, {"run_forever"}, {"_run_once"}, {"_run", U"/lib/asyncio/events.py"}, {"callback"}});
        python.target.wake(kTid);
        sleep();
    }
    [[nodiscard]] std::uint64_t samples(const Sums& sums, const std::string& stack_text) const {
        const auto found = sums.find({kTid, stack_text});
        return found == sums.end() ? 0 : found->second;
    }

    static constexpr pid_t kTid = FakeTarget::kPid, kSleeper = kTid + 1;
    AsyncioBuilder asyncio;
    ProcessBuilder::DataStack stack;
    Address thread{}, loop{}, task{};
};

const std::string kIdle = "main;run_forever;[task idle];idle";
const std::string kBlocked = "main;run_forever;_run_once;_run;callback";

template <class Test>
void for_each_loop(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        LoopSampling world(known);
        test(world);
    }
}

}  // namespace

TEST_CASE("sampler: of a loop at rest its tasks are shown, and not the loop") {
    for_each_loop([](LoopSampling& world) {
        world.sleep();
        world.start();
        world.ticks(20);
        const Sums sums = world.result();
        CHECK(world.samples(sums, kIdle) >= 19);
        CHECK(sums.size() == 1);
    });
}

TEST_CASE("sampler: a callback that blocks its loop is shown beside the tasks that wait, with idle threads and without") {
    for (const WhichThreads which : {WhichThreads::kRunning, WhichThreads::kAll}) {
        for_each_loop([&](LoopSampling& world) {
            world.sleep();
            world.start(which);
            world.ticks(10);
            world.block_in_callback();
            world.ticks(10);
            const Sums sums = world.result();
            CHECK(world.samples(sums, kBlocked) == 10);
            CHECK(world.samples(sums, kIdle) >= 19);
        });
    }
}

TEST_CASE("sampler: by shares a loop has one sample a tick, also where it sleeps within a callback") {
    for_each_loop([](LoopSampling& world) {
        world.async.weight = AsyncWeight::kShare;
        world.sleep();
        world.start();
        world.ticks(10);
        world.block_in_callback();
        world.ticks(10);
        const Sums sums = world.result();
        CHECK(world.samples(sums, kIdle) <= 10);
        CHECK(world.samples(sums, kBlocked) == 10);
        std::uint64_t all = 0;
        for (const auto& [stack, samples] : sums) all += samples;
        CHECK(all <= 20);
    });
}

TEST_CASE("sampler: a thread that sleeps until a task ends stands above it, and is itself recorded among idle threads alone") {
    for (const WhichThreads which : {WhichThreads::kRunning, WhichThreads::kAll}) {
        for_each_loop([&](LoopSampling& world) {
            const Address given = world.builder().instance("Future", {{"_done_callbacks", list_of(world.builder(), {})}});
            world.asyncio.add_chain(world.task, given);
            world.add_sleeper(given);
            world.sleep();
            world.start(which);
            world.ticks(20);
            const Sums sums = world.result();
            CHECK(world.samples(sums, "worker;result;[task idle];idle") >= 18);
            const auto own = sums.find({LoopSampling::kSleeper, "worker;result;wait"});
            CHECK((own == sums.end() ? 0 : own->second) == (which == WhichThreads::kAll ? 20 : 0));
            std::uint64_t all = 0;
            for (const auto& [stack, samples] : sums) all += samples;
            CHECK(all <= (which == WhichThreads::kAll ? 40 : 20));
        });
    }
}
