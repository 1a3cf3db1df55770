// SPDX-License-Identifier: Apache-2.0
#include "sample/thread_reader.h"
#include "support/fake_memory.h"

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr std::uint64_t kChunkBytes = FakeMemory::kPageSize;

// Ranges by name: "s" and "t" are thread states whose first word points to the highest chunk of their pile; "a0" and "b0" the
// lowest chunks of the first and the second one.
struct Piles {
    Piles() {
        for (const char* name : {"s", "t", "a0", "a1", "a2", "a3", "b0", "b1"}) {
            at[name] = Address{0x10000 + at.size() * 0x10000};
            memory.map(at[name], kChunkBytes);
        }
        memory.before_range = [this](FakeMemory&, const ReadRange& range) {
            for (const auto& [name, address] : at) {
                if (address == range.from) order += (order.empty() ? "" : " ") + name;
            }
            if (before) before(order);
        };
    }
    void point(const std::string& state, const std::string& chunk) { memory.put(at[state], raw(at[chunk])); }
    void plan(const std::string& name) {
        buffers.emplace_back(8);
        ranges.push_back({at[name], buffers.back()});
        names.push_back(name);
        if (name == "s" || name == "t") {
            pointer = ranges.size() - 1;
            levels.emplace_back();
        } else {
            levels.push_back({at[name[0] == 'a' ? "s" : "t"], static_cast<std::size_t>(name[1] - '0'), pointer, 0});
        }
    }
    void unmap(const std::string& name) { memory.unmap(at[name], kChunkBytes); }
    // "s a0 a1!": those that were read, with a mark those that came behind later ranges.
    std::string read() {
        std::vector<std::uint8_t> filled;
        read_all(memory, ranges, filled, levels);
        std::string text;
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (filled[i] == kNotFilled) continue;
            text += (text.empty() ? "" : " ") + names[i] + (filled[i] == kFilledLast ? "!" : "");
        }
        return text;
    }

    FakeMemory memory;
    std::map<std::string, Address> at;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<ReadRange> ranges;
    std::vector<ReadLevel> levels;
    std::vector<std::string> names;
    std::size_t pointer = ReadLevel::kNoPointer;
    std::string order;  // of all ranges that were asked for
    std::function<void(const std::string& order)> before;
};

}  // namespace

TEST_CASE("read all: a chunk that is gone has its pile read anew from its pointer on, in one more call") {
    Piles piles;
    for (const char* name : {"s", "a2", "a1", "a0", "t", "b1", "b0"}) piles.plan(name);
    piles.point("s", "a1");
    piles.point("t", "b1");
    piles.unmap("a2");
    CHECK(piles.read() == "s a1 a0 t b1 b0");
    CHECK(piles.order == "s a2 s a1 a0 t b1 b0");
    CHECK(piles.memory.reads() == 2);
}

TEST_CASE("read all: the pile of another thread is left as it was read") {
    Piles piles;
    for (const char* name : {"t", "b1", "b0", "s", "a2", "a1", "a0"}) piles.plan(name);
    piles.point("s", "a0");
    piles.point("t", "b1");
    piles.unmap("a2");
    CHECK(piles.read() == "t b1 b0 s a1! a0");
    CHECK(piles.order == "t b1 b0 s a2 s a0 a1");
}

TEST_CASE("read all: two threads whose stacks have shrunk lose what is gone of each") {
    Piles piles;
    for (const char* name : {"s", "a2", "a1", "a0", "t", "b1", "b0"}) piles.plan(name);
    piles.point("s", "a1");
    piles.point("t", "b0");
    piles.unmap("a2");
    piles.unmap("b1");
    CHECK(piles.read() == "s a1 a0 t b0");
    CHECK(piles.memory.reads() == 3);
}

TEST_CASE("read all: chunks above the highest one come last, as far as the stack has grown again") {
    Piles piles;
    for (const char* name : {"s", "a3", "a2", "a1", "a0"}) piles.plan(name);
    piles.point("s", "a0");
    piles.unmap("a3");
    piles.unmap("a2");
    CHECK(piles.read() == "s a1! a0");
    CHECK(piles.order == "s a3 s a0 a1 a2");
}

TEST_CASE("read all: what is read anew and can't be read any more has not been read") {
    Piles piles;
    for (const char* name : {"s", "a2", "a1", "a0"}) piles.plan(name);
    piles.point("s", "a1");
    piles.unmap("a2");
    piles.before = [&](const std::string& order) {
        if (order == "s a2") piles.unmap("s");
    };
    CHECK(piles.read() == "a1 a0");
}

TEST_CASE("read all: a pointer that leads to none of the planned chunks costs no second reading of it") {
    Piles piles;
    for (const char* name : {"s", "a2", "a1", "a0"}) piles.plan(name);
    piles.point("s", "b0");
    piles.unmap("a2");
    CHECK(piles.read() == "s a1 a0");
    CHECK(piles.order == "s a2 a1 a0");
}

TEST_CASE("read all: every chunk may be gone, and a process that ends is asked no more") {
    Piles piles;
    for (const char* name : {"s", "a1", "a0", "t", "b0"}) piles.plan(name);
    piles.point("s", "a1");
    piles.unmap("a0");
    piles.unmap("a1");
    CHECK(piles.read() == "s t b0");
    piles.memory.reset_counts();
    piles.memory.end_process();
    CHECK(piles.read().empty());
    CHECK(piles.memory.reads() == 1);
}
