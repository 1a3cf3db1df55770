// SPDX-License-Identifier: Apache-2.0
//
// AsyncSampler over a made-up process with one thread: what it says of that thread's samples, and what it
// records. Ticks lie an hour apart, so that no pause that depends on how fast this machine is has an effect.
#pragma once

#include "sample/async_sampler.h"

#include "support/asyncio_builder.h"
#include "support/fake_target.h"
#include "support/gevent_builder.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace pyprof::test {

using namespace std::chrono_literals;

struct Recorded {
    std::uint64_t samples = 0;
    std::chrono::nanoseconds weight{0};
    friend bool operator==(const Recorded&, const Recorded&) = default;
};
using Recording = std::map<std::string, Recorded>;  // by the names of a stack, root first

inline std::ostream& operator<<(std::ostream& out, const Recorded& recorded) {
    return out << recorded.samples << " samples of " << recorded.weight.count() << " ns";
}

struct AsyncWorld {
    static constexpr std::chrono::nanoseconds kPeriod = 1ms;

    explicit AsyncWorld(const Layout& layout)
        : target("/bin/python"),
          builder(target.fake(), layout),
          codes(target.memory(), builder.layout(), stacks),
          stack_builder(codes, stacks, false),
          epoch(codes, stacks, stack_builder) {
        interpreter = builder.interpreter();
        ProcessBuilder::ThreadSpec spec;
        spec.interpreter = interpreter;
        spec.thread_id = GeventBuilder::kPthread;
        thread = builder.thread(spec);
        target.thread(FakeTarget::kPid);
        threads.interpreters.push_back({interpreter, 0, kNullAddress});
        threads.threads.push_back({thread, interpreter, GeventBuilder::kPthread, FakeTarget::kPid, true});
    }

    FakeMemory& memory() { return target.fake(); }
    void start(const AsyncOptions& options) {
        sampler = std::make_unique<AsyncSampler>(target, builder.layout(), stacks, codes, stack_builder,
                                                 epoch, options);
        sampler->set_threads(threads);
        REQUIRE(sampler->has_loop(thread));
    }

    // A function of the program, or of a library where a file is given; the same name is the same code.
    RawFrame plain(const std::string& name, const std::u32string& file = U"/t/file.py") {
        const auto [known, is_new] = frames_.try_emplace(name);
        RawFrame& frame = known->second;
        if (!is_new) return frame;
        ObjectBuilder::CodeSpec spec;
        spec.name = std::u32string(name.begin(), name.end());
        spec.filename = file;
        frame.code = builder.code(spec);
        frame.address = Address{0x10000 + frames_.size() * 0x100};
        const InstructionKind kind = builder.layout().instruction_kind;
        const bool is_index = kind == InstructionKind::kByteIndex || kind == InstructionKind::kCodeUnitIndex;
        if (!is_index) frame.instruction = raw(frame.code + at(builder.layout().code.bytecode));
        return frame;
    }
    // As a sample of the thread has them, root first; all callers are proved.
    StackBuilder::Chain chain_of(const std::vector<RawFrame>& root_first) {
        Walk walk;
        walk.end = WalkEnd::kRoot;
        walk.frames.assign(root_first.rbegin(), root_first.rend());
        StackBuilder::Chain chain;
        REQUIRE(stack_builder.build(walk, chain) != StackBuilder::Built::kTorn);
        stack_builder.prove(stack_builder.path_of(chain));
        return chain;
    }
    std::string text(StackId stack) const {
        std::string text;
        for (; stack != kRootStack; stack = stacks.node(stack).parent) {
            const std::string name(stacks.string(stacks.frame(stacks.node(stack).frame).name));
            text = text.empty() ? name : name + ";" + text;
        }
        return text;
    }

    void begin_tick(std::chrono::nanoseconds since_last = 1h) {
        sampler->begin_tick(now += since_last, kPeriod);
    }
    // Where the sample of such a stack is put; empty where it stays as it is.
    std::string splice(const std::vector<RawFrame>& root_first, std::uint64_t version) {
        StackBuilder::Chain chain = chain_of(root_first);
        const auto spliced = sampler->splice(thread, chain, version);
        return spliced ? text(spliced->place.stack) : std::string();
    }
    // What was recorded since the last call.
    Recording recorded() {
        Recording recording;
        const Epoch::Result& result = epoch.end(now, nullptr);
        CHECK(result.demoted == 0);
        for (const SampleRecord& record : result.records) {
            Recorded& one = recording[text(record.stack)];
            one.samples += record.samples;
            one.weight += record.weight;
        }
        return recording;
    }
    [[nodiscard]] static Recorded all_of(const Recording& recording) {
        Recorded sum;
        for (const auto& [stack, one] : recording) {
            sum.samples += one.samples;
            sum.weight += one.weight;
        }
        return sum;
    }
    [[nodiscard]] RunFigures figures() const {
        RunFigures figures;
        sampler->add_figures(figures);
        return figures;
    }

    FakeTarget target;
    ProcessBuilder builder;
    StackTable stacks;
    CodeCache codes;
    StackBuilder stack_builder;
    Epoch epoch;
    Address interpreter{}, thread{};
    ThreadList threads;
    std::unique_ptr<AsyncSampler> sampler;
    std::chrono::nanoseconds now = 1h;

private:
    std::map<std::string, RawFrame> frames_;
};

// A loop of asyncio in that thread: main > run_forever > _run_once.
struct LoopWorld : AsyncWorld {
    struct Made {
        Address task{}, coroutine{};
    };

    explicit LoopWorld(const Layout& layout) : AsyncWorld(layout), asyncio(builder) {
        loop = builder.object(64);
        asyncio.publish_places(target);
        asyncio.set_loop(thread, loop, FakeTarget::kPid);
        step();
    }

    // Called so, at an await in a function of that name; awaits() says of what.
    Made make(const std::string& name, const std::string& function) {
        Made made;
        made.coroutine = asyncio.coroutine(function, kNullAddress);
        made.task = asyncio.task({name, made.coroutine, kNullAddress});
        builder.put_field(made.task, asyncio.layout().future.loop, raw(loop));
        listed.push_back(made.task);
        return made;
    }
    // Another task comes to its place: with the same name and the same coroutine, but a context of its own.
    void replace(const Made& made) {
        asyncio.clear_callbacks(made.task);
        builder.put_field(made.task, asyncio.layout().task.context, raw(builder.object(64)));
        step();
    }
    // It waits for a task or a future.
    void awaits(const Made& made, Address future) {
        asyncio.set_awaiting(made.coroutine, asyncio.future_iter(future));
        builder.put_field(made.task, asyncio.layout().task.fut_waiter, raw(future));
        asyncio.add_wakeup(future, made.task);
    }
    Made waiting(const std::string& name, const std::string& function, Address future) {
        const Made made = make(name, function);
        awaits(made, future);
        return made;
    }
    Made sleeping(const std::string& name, const std::string& function) {
        return waiting(name, function, asyncio.future());
    }
    // Its own coroutine executes, and the loop says that it is in its step.
    void run(const Made& made) {
        asyncio.set_executing(made.coroutine);
        builder.put_field(made.task, asyncio.layout().task.fut_waiter, 0);
        current = made.task;
        if (sampler) asyncio.set_current(thread, loop, current);
    }
    Made running(const std::string& name, const std::string& function) {
        const Made made = make(name, function);
        run(made);
        return made;
    }
    // The loop calls one callback.
    void step() { asyncio.set_count(thread, count += 2); }
    void start(const AsyncOptions& options) {
        asyncio.publish(interpreter, listed);
        asyncio.set_current(thread, loop, current);
        AsyncWorld::start(options);
    }
    // Of a sample: the loop's own frames, then these.
    std::vector<RawFrame> on_loop(const std::vector<RawFrame>& frames = {}) {
        const std::u32string file = U"/lib/asyncio/base_events.py";
        std::vector<RawFrame> all{plain("main"), plain("run_forever", file), plain("_run_once", file)};
        all.insert(all.end(), frames.begin(), frames.end());
        return all;
    }
    // ... where the loop is written in C, as that of uvloop is: it has no frames, but uvloop.run() has.
    std::vector<RawFrame> on_c_loop(const std::vector<RawFrame>& frames = {}) {
        std::vector<RawFrame> all{plain("main"), plain("run", U"/lib/uvloop/__init__.py"), plain("Runner.run", U"/lib/asyncio/runners.py")};
        all.insert(all.end(), frames.begin(), frames.end());
        return all;
    }
    // What is recorded of tasks in a tick in which the thread has this stack.
    Recording tick_at(const std::vector<RawFrame>& root_first) {
        begin_tick();
        (void)splice(root_first, count);
        sampler->record_waiting(thread, 0, false, false);
        return recorded();
    }
    std::string splice_step(const Made& made, std::uint64_t version) {
        return splice(on_loop({asyncio.frame_of(made.coroutine), plain("helper")}), version);
    }
    // A tick in which the thread sleeps in its loop, and what is recorded of its tasks.
    Recording tick(bool is_still = false, std::chrono::nanoseconds since_last = 1h) {
        begin_tick(since_last);
        CHECK(splice(on_loop({plain("select")}), count).empty());
        sampler->record_waiting(thread, 0, is_still, false);
        return recorded();
    }

    AsyncioBuilder asyncio;
    Address loop{}, current{};
    std::vector<Address> listed;
    std::uint64_t count = 1;
};

// From here on the loop steps whenever it is not held, so that a look needs a hold, and a pause of a quarter
// of a second follows it.
template <class World>
struct Holding {
    explicit Holding(World& world) {
        world.sampler->set_hold([this](Address, const std::function<void()>& copy) {
            ++holds;
            is_held = true;
            copy();
            is_held = false;
            return true;
        });
        world.memory().before_range = [this, &world](FakeMemory&, const ReadRange&) {
            if (!is_held) world.step();
        };
    }
    int holds = 0;
    bool is_held = false;
};
constexpr std::chrono::nanoseconds kWithinPause = 10ms;

inline AsyncOptions async_options(AsyncMode mode) {
    AsyncOptions options;
    options.mode = mode;
    return options;
}

template <class Test>
void for_each_loop(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        LoopWorld world(known.layout);
        test(world);
    }
}

}  // namespace pyprof::test
