// SPDX-License-Identifier: Apache-2.0
//
// The first and the third oracle: what headers say of each field (expected/*.txt, printed by offsets.c)
// and what interpreters say of themselves (debug_offsets/*.bin, saved from processes) against Layout.
#include "layouts/fields.h"
#include "layouts/headers.h"
#include "python/layouts.h"
#include "support/files.h"

#include <catch2/catch.hpp>

#include <sstream>

using namespace pyprof;
using namespace pyprof::test;

namespace {

const std::string kDirectory = PYPROF_TEST_DIR "/layouts";

std::map<std::string, long> parse_fields(const std::string& text) {
    std::map<std::string, long> fields;
    std::istringstream lines(text);
    std::string name;
    std::string value;
    while (lines >> name >> value) {
        if (name != "version") fields[name] = std::stol(value);
    }
    return fields;
}

// "3.14.10t" -> 14
int minor_of(const std::string& build) {
    return std::stoi(build.substr(2));
}

// The layout of a build: its row, or its debug offsets where those were saved.
std::optional<Layout> layout_of_build(const std::string& build) {
    if (const Layout* row = layout_of(3, minor_of(build))) return *row;
    for (const std::string suffix : {"", "-headers"}) {
        const auto bytes = read_file(kDirectory + "/debug_offsets/" + build + suffix + ".bin");
        if (bytes.empty()) continue;
        auto layout = layout_from_debug_offsets(bytes);
        INFO(build);
        REQUIRE(layout);
        return *layout;
    }
    return std::nullopt;
}

}  // namespace

TEST_CASE("layouts: every field of every build is what the headers say") {
    const auto builds = files_in(kDirectory + "/expected", ".txt");
    REQUIRE(builds.size() >= 15);
    for (const std::string& build : builds) {
        CAPTURE(build);
        const auto layout = layout_of_build(build);
        REQUIRE(layout);
        const auto expected = parse_fields(read_text(kDirectory + "/expected/" + build + ".txt"));
        const auto actual = fields_of(*layout);
        CHECK(expected.size() == actual.size());
        for (const auto& [name, value] : actual) {
            CAPTURE(name);
            const auto said = expected.find(name);
            REQUIRE(said != expected.end());
            CHECK(value == said->second);
        }
    }
}

TEST_CASE("layouts: each minor version from 3.8 to 3.15 has at least one build to be compared with") {
    const auto builds = files_in(kDirectory + "/expected", ".txt");
    for (int minor = 8; minor <= 15; ++minor) {
        CAPTURE(minor);
        CHECK(std::any_of(builds.begin(), builds.end(),
                          [&](const auto& build) { return minor_of(build) == minor; }));
    }
}

TEST_CASE("layouts: the stored fields are what the headers of this machine print") {
    std::size_t compared = 0;
    for (const std::string& build : files_in(kDirectory + "/expected", ".txt")) {
        const auto headers = find_headers(build);
        if (!headers) {
            WARN("skip " << build << ": its headers are not here (PYPROF_HEADERS)");
            continue;
        }
        CAPTURE(build, *headers);
        const auto printed = run_print_offsets(kDirectory, *headers, build);
        REQUIRE_FALSE(printed.empty());
        auto expected = parse_fields(read_text(kDirectory + "/expected/" + build + ".txt"));
        auto actual = parse_fields(printed);
        // Sizes differ between patch releases, and those are not always the same here.
        for (auto* fields : {&expected, &actual}) {
            fields->erase("interpreter.size");
            fields->erase("thread.size");
        }
        CHECK(actual == expected);
        ++compared;
    }
    if (compared == 0) WARN("skip: no headers of any CPython are here");
}
