// SPDX-License-Identifier: Apache-2.0
//
// The sampler over a made-up process with a few threads, and what it says of them.
#pragma once

#include "sample/sampler.h"

#include "fixture.h"
#include "support/fake_target.h"
#include "target_model.h"

#include <map>
#include <memory>

namespace pyprof::test {

using namespace std::chrono_literals;

struct Seen final : Sampler::Sink {
    void add_thread(const ProfiledThread& thread) override { threads.push_back(thread); }
    void name_thread(ThreadIndex thread, const std::string& name) override { threads.at(thread).name = name; }
    void add_sample(const SampleRecord& record) override { records.push_back(record); }
    std::vector<ProfiledThread> threads;
    std::vector<SampleRecord> records;
};

using Sums = std::map<std::pair<std::uint64_t, std::string>, std::uint32_t>;  // by thread and stack

// A process with a few threads, each below frames of its own.
struct Sampling {
    explicit Sampling(const KnownLayout& known) : python(known, PYPROF_TEST_DIR) {}

    ProcessBuilder& builder() { return python.builder; }
    [[nodiscard]] bool on_data_stack() const { return python.layout().frame_root != FrameRoot::kThreadFrame; }
    Address code(const std::string& name) {
        Address& known = codes[name];
        if (known != kNullAddress) return known;
        ObjectBuilder::CodeSpec spec;
        spec.name = std::u32string(name.begin(), name.end());
        spec.bytecode = std::vector<std::byte>(80);
        if (on_data_stack()) {  // whoever stands at unit 8 waits in a call
            const OpcodeNumbers& numbers = opcode_numbers(python.layout().version.minor);
            const bool behind = python.layout().instruction_kind == InstructionKind::kPreviousInstruction;
            const auto at_unit = static_cast<std::size_t>(8 - (behind ? numbers.cache_units : 0));
            spec.bytecode[at_unit * 2] = static_cast<std::byte>(numbers.call);
        }
        return known = builder().code(spec);
    }
    // main -> NAME, the leaf executing; on a stack of its own, or so many bytes apart where frames stand alone.
    struct Frames {
        ProcessBuilder::DataStack stack;
        Address root{};
        Address leaf{};
    };
    Frames frames(const std::string& leaf_name, std::size_t apart = 0) {
        Frames made;
        if (on_data_stack()) {
            made.stack = builder().data_stack();
            made.stack.top = made.stack.top + 8;
        }
        const Layout::Frame& fields = python.layout().frame;
        ProcessBuilder::FrameSpec spec;
        spec.code = code("main");
        spec.index = 8;
        spec.is_entry = true;
        spec.stack = has(fields.stackpointer) ? 0x7f1000000000 : 1;
        if (has(fields.owner_cstack) || has(fields.owner_interpreter)) spec.back = builder().shim(kNullAddress);
        made.root = builder().any_frame(made.stack, spec);
        if (apart > 0) (void)builder().allocate(apart);
        ProcessBuilder::FrameSpec leaf;
        leaf.code = code(leaf_name);
        leaf.index = 8;
        leaf.back = made.root;
        leaf.stack = has(fields.stackpointer) ? 0 : -1;
        made.leaf = builder().any_frame(made.stack, leaf);
        return made;
    }
    Address add_thread(pid_t tid, const std::string& leaf_name, bool holds_gil = false) {
        const Frames made = frames(leaf_name);
        return python.add_thread({tid, made.leaf, made.stack, holds_gil});
    }
    void start(WhichThreads which = WhichThreads::kRunning, double rate_hz = 1'000,
               std::chrono::nanoseconds one_moment = 1h) {  // no claim depends on how fast this machine is, but of those that ask
        auto attached = PythonProcess::attach(python.target);
        REQUIRE(attached);
        process = std::make_unique<PythonProcess>(std::move(*attached));
        SamplerOptions options;
        options.which = which;
        options.rate_hz = rate_hz;
        options.name_within = 1h;
        options.one_moment = one_moment;
        options.async = async;
        sampler = std::make_unique<Sampler>(python.target, *process, stacks, options, seen);
    }
    Sampler::Outcome tick() { return sampler->tick(now += period, period); }
    void ticks(int count) {
        for (int i = 0; i < count; ++i) REQUIRE(tick() == Sampler::Outcome::kOk);
    }
    // Names, root first; of a sample with sure callers those of its whole stack, be that proved or not.
    [[nodiscard]] std::string text(StackId stack) const {
        std::string text;
        stack = stacks.shown(stack).stack;
        for (; stack != kRootStack; stack = stacks.node(stack).parent) {
            const std::string name(stacks.string(stacks.frame(stacks.node(stack).frame).name));
            text = text.empty() ? name : name + ";" + text;
        }
        return text;
    }
    // What was committed: samples by thread number and names.
    Sums result() {
        sampler->finish(now);
        Sums sums;
        for (const SampleRecord& record : seen.records) {
            sums[{seen.threads.at(record.thread).native_id, text(record.stack)}] += record.samples;
        }
        return sums;
    }

    FakePython python;
    std::map<std::string, Address> codes;
    StackTable stacks;
    Seen seen;
    AsyncOptions async;
    std::unique_ptr<PythonProcess> process;
    std::unique_ptr<Sampler> sampler;
    std::chrono::nanoseconds now = 10s;
    std::chrono::nanoseconds period = 1ms;
};

}  // namespace pyprof::test
