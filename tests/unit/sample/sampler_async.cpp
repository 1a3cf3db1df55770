// SPDX-License-Identifier: Apache-2.0
//
// The sampler's own part in asyncio: what a loop's thread shows in a tick beside its tasks. Every layout.
#include "sampling.h"

#include "support/asyncio_builder.h"

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
    };

    explicit LoopSampling(const KnownLayout& known) : Sampling(known), asyncio(builder()) {
        asyncio.publish_places(python.target);
        if (on_data_stack()) stack = builder().data_stack();
        thread = python.add_thread({kTid, stand_in({{"main"}, {"run_forever", kLoop}, {"_run_once", kLoop}, {"select", U"/lib/selectors.py"}}), stack, false});
        loop = builder().object(64);
        asyncio.set_loop(thread, loop, FakeTarget::kPid);
        asyncio.set_count(thread, 1);
        const Address future = asyncio.future();
        const Address task = asyncio.task({"Task-1", asyncio.coroutine("idle", asyncio.future_iter(future)), future});
        builder().put_field(task, asyncio.layout().future.loop, raw(loop));
        asyncio.add_wakeup(future, task);
        asyncio.publish(python.interpreter, {task});
        async.mode = AsyncMode::kAll;
    }
    // The thread's stack, root first; returns its leaf.
    Address stand_in(const std::vector<Function>& functions) {
        const Layout::Frame& fields = python.layout().frame;
        if (on_data_stack()) stack.top = stack.chunk + 32;
        Address back = has(fields.owner_cstack) || has(fields.owner_interpreter) ? builder().shim(kNullAddress) : kNullAddress;
        for (std::size_t i = 0; i < functions.size(); ++i) {
            const bool is_leaf = i + 1 == functions.size();
            ProcessBuilder::FrameSpec spec;
            spec.code = code_of(functions[i]);
            spec.index = 8;
            spec.is_entry = i == 0;
            spec.back = back;
            spec.stack = is_leaf ? (has(fields.stackpointer) ? 0 : -1) : (has(fields.stackpointer) ? 0x7f1000000000 : 1);
            back = builder().any_frame(stack, spec);
        }
        if (thread != kNullAddress) builder().set_leaf(thread, back);
        return back;
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

    static constexpr pid_t kTid = FakeTarget::kPid;
    AsyncioBuilder asyncio;
    ProcessBuilder::DataStack stack;
    Address thread{}, loop{};
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
