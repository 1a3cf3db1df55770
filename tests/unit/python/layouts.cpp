// SPDX-License-Identifier: Apache-2.0
//
// Which layout is chosen for which target. The numbers themselves are tests/layouts' business.
#include "python/layouts.h"

#include "support/files.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

TEST_CASE("layouts: versions up to 3.12 have a row, others have none") {
    for (int minor = 8; minor <= 12; ++minor) CHECK(layout_of(3, minor) != nullptr);
    CHECK(layout_of(3, 7) == nullptr);
    CHECK(layout_of(3, 13) == nullptr);
    CHECK(layout_of(2, 8) == nullptr);
}

TEST_CASE("layouts: a row takes the version that was found") {
    const auto layout = layout_for(version_from_hex(0x030b07f0), {});
    REQUIRE(layout);
    CHECK(to_string(layout->version) == "3.11.7");
    CHECK_FALSE(layout->from_debug_offsets);
}

TEST_CASE("layouts: debug offsets win over what the file's name told") {
    const auto bytes = read_file(PYPROF_TEST_DIR "/layouts/debug_offsets/3.15.2.bin");
    const auto layout = layout_for({3, 8, 0, 0}, bytes);
    REQUIRE(layout);
    CHECK(to_string(layout->version) == "3.15.2");
}

TEST_CASE("layouts: unknown versions are errors that name them") {
    for (const auto& [major, minor, text] : {std::tuple(3, 7, "Python 3.7.0 is not supported"),
                                             std::tuple(3, 16, "Python 3.16.0 is not supported"),
                                             std::tuple(2, 7, "Python 2.7.0 is not supported"),
                                             std::tuple(0, 0, "Python 0.0.0 is not supported")}) {
        const auto layout = layout_for({major, minor, 0, 0}, {});
        REQUIRE_FALSE(layout);
        CHECK(layout.error().message == text);
        CHECK(layout.error().code == ExitCode::kNotPython);
        CHECK(is_unsupported_version(layout.error()));
        CHECK_FALSE(layout.error().hint.empty());
    }
}

TEST_CASE("layouts: 3.13 and later without debug offsets is an error, not a guess") {
    const auto layout = layout_for({3, 14, 2, 0}, std::vector<std::byte>(kDebugOffsetsBytes));
    REQUIRE_FALSE(layout);
    CHECK_THAT(layout.error().message, Catch::Contains("3.14.2") && Catch::Contains("no debug offsets"));
}

TEST_CASE("layouts: versions are written as Python writes them") {
    CHECK(to_string(version_from_hex(0x030801f0)) == "3.8.1");
    CHECK(to_string(version_from_hex(0x030f00a1)) == "3.15.0a1");
    CHECK(to_string(version_from_hex(0x030f00b2)) == "3.15.0b2");
    CHECK(to_string(version_from_hex(0x030f00c3)) == "3.15.0rc3");
    CHECK(to_string(PythonVersion{3, 9, 2, 0}) == "3.9.2");
}

TEST_CASE("layouts: kinds that the walker asks for fit the version") {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        CAPTURE(known.name);
        const Layout& layout = known.layout;
        const int minor = layout.version.minor;
        CHECK((layout.frame_root == FrameRoot::kThreadFrame) == (minor <= 10));
        CHECK((layout.frame_root == FrameRoot::kThreadCframe) == (minor == 11 || minor == 12));
        CHECK((layout.instruction_kind == InstructionKind::kByteIndex) == (minor <= 9));
        CHECK((layout.instruction_kind == InstructionKind::kCodeUnitIndex) == (minor == 10));
        CHECK((layout.instruction_kind == InstructionKind::kInstructionPointer) == (minor >= 13));
        CHECK((layout.line_table_kind == LineTableKind::kLocations) == (minor >= 11));
        CHECK((layout.gil_kind == GilKind::kRuntimeCurrent) == (minor <= 11));
        CHECK((layout.gil_kind == GilKind::kLockedHolder) == (minor == 12));
        CHECK((layout.gil_kind == GilKind::kStatusBit) == (minor == 13));
        CHECK((layout.gil_kind == GilKind::kThreadInt) == (minor >= 14));
        CHECK((layout.pointer_mask == ~3ULL) == (minor >= 14));
        CHECK(has(layout.gil.enabled) == layout.free_threaded);
        CHECK(layout.integer.tagged == (minor >= 12));
        CHECK(layout.from_debug_offsets == (minor >= 13));
    }
}
