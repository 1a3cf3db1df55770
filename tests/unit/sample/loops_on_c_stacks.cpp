// SPDX-License-Identifier: Apache-2.0
#include "sample/loops_on_c_stacks.h"

#include "support/fake_target.h"

#include <catch2/catch.hpp>

#include <map>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr std::uint64_t kStackBytes = 0x4000;
constexpr Address kRoot{0x7000'1000};
constexpr Address kMiddle{0x7000'2000};
constexpr Address kLeaf{0x7000'3000};

struct Registers final : Stop {
    std::map<pid_t, RegisterSet> of;
    std::optional<RegisterSet> read_registers(pid_t tid) const override {
        const auto found = of.find(tid);
        return found == of.end() ? std::nullopt : std::optional(found->second);
    }
};

// Threads 100 and 101, each stopped in the middle of its stack.
struct TwoThreads {
    TwoThreads() : target("/none") {
        for (const pid_t tid : {100, 101}) {
            target.thread(tid);
            const Address begin{0x1000'0000 + static_cast<std::uint64_t>(tid) * 0x10'0000};
            target.fake().map(begin, kStackBytes);
            target.add_stack(begin, begin + kStackBytes, tid == 100);
            pointers[tid] = begin + 0x2000;
            stop.of[tid].set(RegisterSet::kRsp, raw(pointers[tid]));
        }
    }
    void put(pid_t tid, std::uint64_t above, Address value) {
        target.fake().put(pointers[tid] + above, raw(value));
    }
    Address find(pid_t own = 0) {
        LoopsOnCStacks loops;
        loops.copy(target, target.read_threads().value(), target.read_mappings().value(), &stop);
        return loops.find(chain(), own);
    }
    static std::vector<RawFrame> chain() {
        std::vector<RawFrame> frames(3);
        frames[0].address = kLeaf;
        frames[1].address = kMiddle;
        frames[2].address = kRoot;
        return frames;
    }
    // As the loops of these three calls leave them.
    void put_chain(pid_t tid) {
        put(tid, 0x800, kRoot);
        put(tid, 0x400, kMiddle);
        put(tid, 0x100, kLeaf);
    }
    FakeTarget target;
    Registers stop;
    std::map<pid_t, Address> pointers;
};

}  // namespace

TEST_CASE("loops on C stacks: the one stack that holds all frames, each below its caller") {
    TwoThreads threads;
    CHECK(threads.find() == kNullAddress);
    threads.put_chain(101);
    CHECK(threads.find() == threads.pointers[101] + 0x100);
    // What an earlier call left on the other stack is no chain: a frame is missing, or they stand in no order.
    threads.put(100, 0x800, kRoot);
    threads.put(100, 0x100, kLeaf);
    CHECK(threads.find() == threads.pointers[101] + 0x100);
    threads.put(100, 0x900, kMiddle);
    CHECK(threads.find() == threads.pointers[101] + 0x100);
}

TEST_CASE("loops on C stacks: of two stacks that hold them none is believed but the thread's own") {
    TwoThreads threads;
    threads.put_chain(100);
    threads.put_chain(101);
    CHECK(threads.find() == kNullAddress);
    CHECK(threads.find(100) == threads.pointers[100] + 0x100);
    CHECK(threads.find(102) == kNullAddress);
}

TEST_CASE("loops on C stacks: what was popped counts for nothing") {
    TwoThreads threads;
    threads.put_chain(101);
    threads.stop.of[101].set(RegisterSet::kRsp, raw(threads.pointers[101] + 0x200));
    CHECK(threads.find() == kNullAddress);
}

TEST_CASE("loops on C stacks: the leaf's may stand in a register") {
    TwoThreads threads;
    threads.put(100, 0x800, kRoot);
    threads.put(100, 0x400, kMiddle);
    threads.stop.of[100].set(RegisterSet::kRbx, raw(kLeaf));
    CHECK(threads.find() == threads.pointers[100]);
}

TEST_CASE("loops on C stacks: without a stop only threads that sleep are looked at") {
    TwoThreads threads;
    threads.put_chain(100);
    threads.put_chain(101);
    threads.target.block(101);
    threads.target.thread(101).activity.stack_pointer = threads.pointers[101];
    LoopsOnCStacks loops;
    loops.copy(threads.target, threads.target.read_threads().value(), threads.target.read_mappings().value(), nullptr);
    CHECK(loops.find(TwoThreads::chain(), 0) == threads.pointers[101] + 0x100);
}

TEST_CASE("loops on C stacks: a stack that can't be read, absurd pointers and empty chains end in nothing") {
    TwoThreads threads;
    threads.put_chain(101);
    threads.target.fake().unmap(threads.pointers[101] + 0x1000, 0x1000);
    CHECK(threads.find() == kNullAddress);
    threads.stop.of[100].set(RegisterSet::kRsp, ~std::uint64_t{0});
    threads.stop.of.erase(101);
    CHECK(threads.find() == kNullAddress);
    CHECK(LoopsOnCStacks().find({}, 0) == kNullAddress);
}
