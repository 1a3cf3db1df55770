// SPDX-License-Identifier: Apache-2.0
//
// Handles close once; clocks run forwards.
#include "base/clock.h"
#include "base/unique_fd.h"

#include <catch2/catch.hpp>

#include <fcntl.h>

using namespace pyprof;

namespace {
bool is_open_descriptor(int fd) {
    return ::fcntl(fd, F_GETFD) != -1;
}
}  // namespace

TEST_CASE("fd: closes what it owns, and only that") {
    int raw = -1;
    {
        UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        REQUIRE(first);
        raw = first.get();
        UniqueFd second(std::move(first));
        CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
        CHECK(second.get() == raw);
        second.reset(raw);
        CHECK(is_open_descriptor(raw));
    }
    CHECK_FALSE(is_open_descriptor(raw));
}

TEST_CASE("fd: a released descriptor stays open") {
    UniqueFd owner(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int raw = owner.release();
    owner.reset();
    CHECK(is_open_descriptor(raw));
    ::close(raw);
}

TEST_CASE("clock: no clock runs backwards") {
    const auto wall = monotonic_now();
    const auto thread = thread_cpu_time();
    const auto process = process_cpu_time();
    CHECK(monotonic_now() >= wall);
    CHECK(thread_cpu_time() >= thread);
    CHECK(process_cpu_time() >= process);
    CHECK(wall.count() > 0);
}
