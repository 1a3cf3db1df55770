// SPDX-License-Identifier: Apache-2.0
//
// Debug offsets that lie: every saved table is damaged in every field, and nothing damaged is believed.
#include "python/debug_offsets.h"

#include "python/layouts.h"
#include "support/files.h"

#include <pyprof/memory.h>

#include <catch2/catch.hpp>

#include <cstring>

using namespace pyprof;
using namespace pyprof::test;

namespace {

const std::string kDirectory = PYPROF_TEST_DIR "/layouts/debug_offsets";
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFreeThreadedAt = 16;
// thread_state.next of 3.13, behind 3 fields of the runtime, 13 of the interpreter, size and prev.
constexpr std::size_t kThreadNextAt = 24 + 8 * 18;

std::vector<std::byte> saved(const std::string& build) {
    return read_file(kDirectory + "/" + build + ".bin");
}

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::vector<std::byte> with_version(std::uint32_t hex) {
    auto bytes = saved("3.14.10");
    put(bytes, kVersionAt, hex);
    return bytes;
}

// Bytes that the table of a version takes: cookie, version, flag and its fields.
std::size_t size_of(const std::string& build) {
    if (build.starts_with("3.13")) return 584;
    return build.starts_with("3.14") ? 760 : 888;
}

}  // namespace

TEST_CASE("debug offsets: the tables of real processes are accepted") {
    const auto builds = files_in(kDirectory, ".bin");
    REQUIRE(builds.size() >= 10);
    for (const std::string& build : builds) {
        CAPTURE(build);
        const auto layout = layout_from_debug_offsets(saved(build));
        REQUIRE(layout);
        CHECK(layout->from_debug_offsets);
        CHECK(build.starts_with(to_string(layout->version)));
        CHECK(layout->free_threaded == (build.find('t') != std::string::npos));
    }
}

TEST_CASE("debug offsets: exactly the version's own fields are needed, and not a byte less") {
    for (const std::string& build : files_in(kDirectory, ".bin")) {
        CAPTURE(build);
        auto bytes = saved(build);
        bytes.resize(size_of(build));
        CHECK(layout_from_debug_offsets(bytes));
        bytes.resize(size_of(build) - 1);
        const auto layout = layout_from_debug_offsets(bytes);
        REQUIRE_FALSE(layout);
        CHECK_THAT(layout.error().message, Catch::Contains("can't be read in full"));
    }
}

TEST_CASE("debug offsets: every length of a cut table is refused without a read behind its end") {
    const auto whole = saved("3.15.2");
    for (std::size_t size = 0; size < size_of("3.15.2"); ++size) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_FALSE(layout_from_debug_offsets(cut));
    }
}

TEST_CASE("debug offsets: without the cookie there are none") {
    auto bytes = saved("3.14.10");
    CHECK(has_debug_offsets(bytes));
    bytes[7] = std::byte{'z'};
    CHECK_FALSE(has_debug_offsets(bytes));
    CHECK_FALSE(layout_from_debug_offsets(bytes));
    CHECK_FALSE(has_debug_offsets({}));
}

TEST_CASE("debug offsets: an unknown version is an error that names it") {
    const auto layout = layout_from_debug_offsets(with_version(0x031000f0));
    REQUIRE_FALSE(layout);
    CHECK(layout.error().message == "Python 3.16.0 is not supported");
    CHECK_FALSE(layout_from_debug_offsets(with_version(0x030c00f0)));
    CHECK_FALSE(layout_from_debug_offsets(with_version(0x040e00f0)));
}

TEST_CASE("debug offsets: alpha and beta releases are refused, candidates and patches are not") {
    const auto alpha = layout_from_debug_offsets(with_version(0x030e00a3));
    REQUIRE_FALSE(alpha);
    CHECK(alpha.error().message == "Python 3.14.0a3 is not supported");
    CHECK_FALSE(layout_from_debug_offsets(with_version(0x030e00b4)));
    CHECK(layout_from_debug_offsets(with_version(0x030e00c1)));
    CHECK(layout_from_debug_offsets(with_version(0x030e63f0)));
}

TEST_CASE("debug offsets: a version or flag that is no number of that kind is refused") {
    auto bytes = saved("3.14.10");
    put(bytes, kVersionAt, 0x1030e0af0);
    CHECK_FALSE(layout_from_debug_offsets(bytes));
    bytes = saved("3.14.10");
    put(bytes, kFreeThreadedAt, 2);
    CHECK_FALSE(layout_from_debug_offsets(bytes));
}

TEST_CASE("debug offsets: a field beyond its struct, misaligned or on another is refused by name") {
    auto bytes = saved("3.13.0");
    REQUIRE(load<std::uint64_t>(bytes.data(), kThreadNextAt) == 8);
    SECTION("beyond") {
        put(bytes, kThreadNextAt, 304);
    }
    SECTION("far beyond") {
        put(bytes, kThreadNextAt, ~std::uint64_t{0});
    }
    SECTION("misaligned") {
        put(bytes, kThreadNextAt, 12);
    }
    const auto layout = layout_from_debug_offsets(bytes);
    REQUIRE_FALSE(layout);
    CHECK_THAT(layout.error().message,
               Catch::Contains("Python 3.13.0") && Catch::Contains("thread_state.next"));
}

TEST_CASE("debug offsets: two fields in one place are refused") {
    auto bytes = saved("3.13.0");
    put(bytes, kThreadNextAt, 0);  // onto prev
    const auto layout = layout_from_debug_offsets(bytes);
    REQUIRE_FALSE(layout);
    CHECK_THAT(layout.error().message, Catch::Contains("overlap"));
}

TEST_CASE("debug offsets: no field of the ones that matter can be any large number") {
    for (const std::string& build : files_in(kDirectory, ".bin")) {
        CAPTURE(build);
        const auto whole = saved(build);
        std::size_t refused = 0;
        for (std::size_t at = 24; at < size_of(build); at += 8) {
            auto bytes = whole;
            put(bytes, at, std::uint64_t{1} << 40U);
            if (!layout_from_debug_offsets(bytes)) ++refused;
        }
        // Not looked at are _gil.enabled and, from 3.14 on, lists, debugger support and statistics.
        CHECK(refused + 11 >= (size_of(build) - 24) / 8);
    }
}

TEST_CASE("debug offsets: names that are asked for are known, absent fields say so") {
    const auto offsets = DebugOffsets::parse(saved("3.13.0"));
    REQUIRE(offsets);
    CHECK(offsets->version_hex() == 0x030d00f0);
    CHECK(offsets->at("thread_state.current_frame") == 72);
    CHECK(offsets->at("interpreter_frame.stackpointer") == DebugOffsets::kNotDescribed);
}
