// SPDX-License-Identifier: Apache-2.0
//
// Vectored reads from a live child whose bytes are known.
#include "target/process_memory.h"

#include "forked_child.h"

#include <sys/mman.h>
#include <array>
#include <vector>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

std::uint64_t known_word = 0x1111;  // the child changes its copy

Address address_of(const void* place) {
    return Address{reinterpret_cast<std::uint64_t>(place)};
}

// Three pages, the middle one not readable; the fork has the same.
struct ThreePages {
    std::byte* start = static_cast<std::byte*>(
        ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ThreePages() {
        REQUIRE(start != MAP_FAILED);
        start[0] = start[2 * 4096] = std::byte{7};
        REQUIRE(::mprotect(start + 4096, 4096, PROT_NONE) == 0);
    }
    ~ThreePages() { ::munmap(start, 3 * 4096); }
};

}  // namespace

TEST_CASE("process memory: reads the child's bytes, not ours") {
    const ForkedChild child([] { known_word = 0xfeedface; });
    ProcessMemory memory(child.pid());
    CHECK(read_value<std::uint64_t>(memory, address_of(&known_word)) == 0xfeedfaceU);
    CHECK(known_word == 0x1111);
    CHECK(memory.counters().calls == 1);
    CHECK(memory.counters().bytes == 8);
}

TEST_CASE("process memory: stops at the range that can't be read and leaves those behind it") {
    const ThreePages pages;
    const ForkedChild child;
    ProcessMemory memory(child.pid());
    std::array<std::byte, 3> bytes{};
    const std::array<ReadRange, 3> ranges{{{address_of(pages.start), {&bytes[0], 1}},
                                           {address_of(pages.start + 4096), {&bytes[1], 1}},
                                           {address_of(pages.start + 8192), {&bytes[2], 1}}}};
    const ReadOutcome outcome = memory.read(ranges);
    CHECK(outcome.complete == 1);
    CHECK(outcome.fault == ReadFault::kUnmapped);
    CHECK(bytes[0] == std::byte{7});
    CHECK(bytes[2] == std::byte{0});

    const ReadOutcome rest = memory.read(std::span(ranges).subspan(2));
    CHECK(rest.complete == 1);
    CHECK(rest.fault == ReadFault::kNone);
    CHECK(bytes[2] == std::byte{7});
}

TEST_CASE("process memory: a range that runs into a hole is not complete") {
    const ThreePages pages;
    const ForkedChild child;
    ProcessMemory memory(child.pid());
    std::vector<std::byte> bytes(2 * 4096);
    CHECK_FALSE(read_bytes(memory, address_of(pages.start), bytes));
    const std::array<ReadRange, 2> ranges{{{address_of(pages.start), std::span(bytes).first(4096)},
                                           {address_of(pages.start + 4000), std::span(bytes).first(200)}}};
    const ReadOutcome outcome = memory.read(ranges);
    CHECK(outcome.complete == 1);
    CHECK(outcome.fault == ReadFault::kUnmapped);
}

TEST_CASE("process memory: more ranges than one call takes are split, in order") {
    const ForkedChild child([] { known_word = 42; });
    ProcessMemory memory(child.pid());
    std::vector<std::uint64_t> words(2500);
    std::vector<ReadRange> ranges;
    for (std::uint64_t& word : words) {
        ranges.push_back({address_of(&known_word), std::as_writable_bytes(std::span(&word, 1))});
    }
    const ReadOutcome outcome = memory.read(ranges);
    CHECK(outcome.complete == 2500);
    CHECK(outcome.fault == ReadFault::kNone);
    CHECK(memory.counters().calls == 3);
    CHECK(std::vector<std::uint64_t>(2500, 42) == words);

    ranges[1500].from = kNullAddress;
    const ReadOutcome broken = memory.read(ranges);
    CHECK(broken.complete == 1500);
    CHECK(broken.fault == ReadFault::kUnmapped);
}

TEST_CASE("process memory: empty lists and empty ranges are complete") {
    const ForkedChild child;
    ProcessMemory memory(child.pid());
    CHECK(memory.read({}).complete == 0);
    CHECK(memory.read({}).fault == ReadFault::kNone);
    std::byte byte{};
    const std::array<ReadRange, 2> ranges{{{kNullAddress, {}}, {address_of(&known_word), {&byte, 1}}}};
    CHECK(memory.read(ranges).complete == 2);
}

TEST_CASE("process memory: addresses that no process has are unmapped") {
    const ForkedChild child;
    ProcessMemory memory(child.pid());
    for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{1} << 47, ~std::uint64_t{0},
                                      ~std::uint64_t{0} - 7, std::uint64_t{1} << 63}) {
        std::byte byte{};
        const ReadRange range{Address{place}, {&byte, 1}};
        INFO(place);
        CHECK(memory.read({&range, 1}).fault == ReadFault::kUnmapped);
    }
}

TEST_CASE("process memory: a process that has ended is gone") {
    ForkedChild child;
    ProcessMemory memory(child.pid());
    child.end();
    std::byte byte{};
    const ReadRange range{address_of(&known_word), {&byte, 1}};
    CHECK(memory.read({&range, 1}).fault == ReadFault::kGone);
}

TEST_CASE("process memory: what belongs to another user is denied") {
    if (::getuid() != 0) {
        WARN("skipped: only root can become another user");
        return;
    }
    const ForkedChild child;
    const ForkedChild reader([] { REQUIRE(::setresuid(65534, 65534, 65534) == 0); },
                             [&] {
                                 ProcessMemory memory(child.pid());
                                 std::byte byte{};
                                 const ReadRange range{address_of(&known_word), {&byte, 1}};
                                 return memory.read({&range, 1}).fault == ReadFault::kDenied ? 'd' : 'x';
                             });
    CHECK(reader.ping() == 'd');
}
