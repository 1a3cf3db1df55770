// SPDX-License-Identifier: Apache-2.0
#include "target/page_cache.h"

#include "support/fake_memory.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using test::FakeMemory;

namespace {

constexpr Address kBase{0x100000};
constexpr std::uint64_t kPage = FakeMemory::kPageSize;
using Agreement = PageCache::Agreement;

std::optional<std::uint64_t> word(PageCache& cache, Address at) { return read_value<std::uint64_t>(cache, at); }

}  // namespace

TEST_CASE("page cache: a look copies all known pages in one call, neighbours as one range") {
    FakeMemory memory;
    for (std::uint64_t i = 0; i < 4; ++i) memory.put(kBase + i * kPage, i);
    memory.put(kBase + 100 * kPage, std::uint64_t{100});
    PageCache cache(memory);
    cache.begin_look(true);
    for (const std::uint64_t i : {3U, 0U, 2U, 1U, 100U}) CHECK(word(cache, kBase + i * kPage) == i);
    memory.reset_counts();
    cache.begin_look(true);
    CHECK(memory.reads() == 1);
    CHECK(memory.ranges() == 4);  // two runs, twice
    for (const std::uint64_t i : {0U, 1U, 2U, 3U, 100U}) CHECK(word(cache, kBase + i * kPage) == i);
    CHECK(memory.reads() == 1);
}

TEST_CASE("page cache: a value that crosses pages is put together, one beyond memory is refused") {
    FakeMemory memory;
    memory.map(kBase, 2 * kPage);
    memory.put(kBase + kPage - 4, std::uint64_t{0x1122334455667788});
    PageCache cache(memory);
    cache.begin_look(true);
    CHECK(word(cache, kBase + kPage - 4) == 0x1122334455667788);
    CHECK_FALSE(word(cache, kBase + 2 * kPage - 4));
    CHECK_FALSE(word(cache, Address{~0ULL - 3}));
    CHECK_FALSE(word(cache, Address{0}));
}

TEST_CASE("page cache: the log agrees only where both copies do") {
    FakeMemory memory;
    memory.put(kBase, std::uint64_t{1});
    memory.put(kBase + 64, std::uint64_t{1});
    PageCache cache(memory);
    cache.begin_look(true);
    cache.start_log();
    CHECK(word(cache, kBase));
    CHECK(cache.check_log() == Agreement::kPartial);  // read when it was asked for, once
    int copies = 0;
    memory.before_range = [&](FakeMemory& changing, const ReadRange&) {
        if (++copies == 2) changing.put(kBase, std::uint64_t{2});
    };
    cache.begin_look(true);
    cache.start_log();
    CHECK(word(cache, kBase) == 1);
    CHECK(cache.check_log() == Agreement::kChanged);
    cache.start_log();
    CHECK(word(cache, kBase + 64) == 1);  // of the same page, and unchanged
    CHECK(cache.check_log() == Agreement::kEqual);
}

TEST_CASE("page cache: a log can be copied again by itself") {
    FakeMemory memory;
    memory.put(kBase, std::uint64_t{1});
    memory.put(kBase + 50 * kPage, std::uint64_t{7});
    PageCache cache(memory);
    cache.begin_look(true);
    CHECK(word(cache, kBase + 50 * kPage) == 7);
    cache.start_log();
    CHECK(word(cache, kBase) == 1);
    memory.put(kBase, std::uint64_t{2});
    memory.put(kBase + 50 * kPage, std::uint64_t{8});
    cache.copy_log_again();
    cache.start_log();
    CHECK(word(cache, kBase) == 2);
    CHECK(cache.check_log() == Agreement::kEqual);
    CHECK(word(cache, kBase + 50 * kPage) == 7);  // not in that log
}

TEST_CASE("page cache: a page that goes away takes no other with it, and may come back") {
    FakeMemory memory;
    for (std::uint64_t i = 0; i < 3; ++i) memory.put(kBase + i * kPage, i);
    PageCache cache(memory);
    cache.begin_look(true);
    for (std::uint64_t i = 0; i < 3; ++i) CHECK(word(cache, kBase + i * kPage) == i);
    memory.unmap(kBase + kPage, kPage);
    cache.begin_look(true);
    CHECK(word(cache, kBase) == 0);
    CHECK_FALSE(word(cache, kBase + kPage));
    CHECK(word(cache, kBase + 2 * kPage) == 2);
    memory.put(kBase + kPage, std::uint64_t{5});
    cache.begin_look(true);
    CHECK(word(cache, kBase + kPage) == 5);
    memory.end_process();
    cache.begin_look(true);
    CHECK_FALSE(word(cache, kBase));
}

TEST_CASE("page cache: pages that nobody asks for are dropped") {
    FakeMemory memory;
    memory.put(kBase, std::uint64_t{1});
    PageCache cache(memory);
    cache.begin_look(true);
    CHECK(word(cache, kBase));
    for (int i = 0; i < 40; ++i) cache.begin_look(true);
    CHECK(cache.page_count() == 0);
}

TEST_CASE("page cache: counters around a copy tell whether it is of one moment") {
    FakeMemory memory;
    const Address counter = kBase + 200 * kPage;
    memory.put(counter, std::uint64_t{6});
    for (std::uint64_t i = 0; i < 3; ++i) memory.put(kBase + i * kPage, i);
    PageCache cache(memory);
    cache.watch(std::span(&counter, 1));
    CHECK_FALSE(cache.stood_still(0));  // nothing was copied yet
    const std::uint64_t pages[] = {raw(kBase) / kPage, raw(kBase) / kPage + 2};
    memory.reset_counts();
    cache.begin_part(pages);
    CHECK(memory.reads() == 1);
    CHECK(cache.stood_still(0));
    CHECK(cache.counted(0) == 6);
    cache.start_log();
    CHECK(word(cache, kBase + 2 * kPage) == 2);
    CHECK(cache.is_log_of_look());
    CHECK(word(cache, kBase + kPage) == 1);  // was not among them
    CHECK_FALSE(cache.is_log_of_look());
    std::vector<std::uint64_t> wanted;
    cache.add_log_pages(wanted);
    CHECK(wanted == std::vector<std::uint64_t>{raw(kBase) / kPage + 2, raw(kBase) / kPage + 1});

    int ranges = 0;
    memory.before_range = [&](FakeMemory& changing, const ReadRange&) {
        if (++ranges == 2) changing.put(counter, std::uint64_t{8});
    };
    cache.begin_part(pages);
    CHECK_FALSE(cache.stood_still(0));
    memory.before_range = nullptr;
    cache.begin_look(false);
    CHECK(cache.stood_still(0));
    memory.unmap(counter, kPage);
    cache.begin_part(pages);
    CHECK_FALSE(cache.stood_still(0));
    cache.start_log();
    CHECK(word(cache, kBase) == 0);
    CHECK(cache.is_log_of_look());
}

TEST_CASE("page cache: that a page can't be read is no page that is missing") {
    FakeMemory memory;
    memory.put(kBase, std::uint64_t{1});
    PageCache cache(memory);
    const std::uint64_t pages[] = {raw(kBase) / kPage, raw(kBase) / kPage + 1};
    cache.begin_part(pages);
    cache.start_log();
    CHECK_FALSE(word(cache, kBase + kPage));
    CHECK_FALSE(word(cache, kBase + 9 * kPage));
    CHECK(cache.is_log_of_look());
    CHECK(word(cache, kBase) == 1);  // its run was bad: it was read anew, by itself
    CHECK_FALSE(cache.is_log_of_look());
    std::vector<std::uint64_t> wanted;
    cache.add_log_pages(wanted);
    CHECK(wanted == std::vector<std::uint64_t>{raw(kBase) / kPage});
}
