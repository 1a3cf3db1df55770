// SPDX-License-Identifier: Apache-2.0
//
// The table of formats, and each format against its golden file. The golden files were read by eye and by
// the standard readers (tests/browser). PYPROF_UPDATE_GOLDEN=1 writes them anew; then read the difference.
#include <pyprof/exporter.h>

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "output/describe.h"
#include "unit/output/sample_profiles.h"

using namespace pyprof;

namespace {

std::string render(std::string_view format, const ResolvedProfile& profile, bool inverted = false) {
    std::ostringstream out;
    ExportOptions options;
    options.inverted = inverted;
    find_format(format)->write(profile, options, out);
    std::string text = out.str();
    // The version is no reason for a golden file to change.
    const std::string current = fmt::format("pyprof{}{}", format == "speedscope" ? "@" : " ", version());
    const std::size_t at = text.find(current);
    if (at != std::string::npos) text.replace(at, current.size(), "pyprof@VERSION");
    return text;
}

void check_golden(const std::string& name, const std::string& actual) {
    const std::string path = std::string(PYPROF_TEST_DIR) + "/golden/" + name;
    if (std::getenv("PYPROF_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << actual;
    std::ifstream in(path);
    INFO(path);
    REQUIRE(in);
    const std::string expected{std::istreambuf_iterator<char>(in), {}};
    const bool is_equal = expected == actual;  // Catch's own message would print both whole
    CHECK(is_equal);
}

}  // namespace

TEST_CASE("formats: are found by name and by the longest ending") {
    CHECK(formats().size() == 3);
    for (const Format& format : formats()) {
        CHECK(find_format(format.name) == &format);
        CHECK(format.write != nullptr);
        for (const std::string_view ending : format.endings) {
            CHECK(format_of_path("dir/profile" + std::string(ending)) == &format);
        }
    }
    CHECK(find_format("svg") == nullptr);
    CHECK(format_of_path("a.b.speedscope.json") == find_format("speedscope"));
    CHECK(format_of_path("a.svg.txt") == find_format("collapsed"));
    CHECK(format_of_path("a.svgz") == nullptr);
    CHECK(format_of_path(".svg") == nullptr);
    CHECK(format_of_path("") == nullptr);
}

TEST_CASE("formats: a service's profile is written as its golden files say") {
    check_golden("service.collapsed", render("collapsed", test::service_profile()));
    check_golden("service.speedscope.json", render("speedscope", test::service_profile()));
    check_golden("service.svg", render("flamegraph", test::service_profile()));
    check_golden("service.inverted.svg", render("flamegraph", test::service_profile(), true));
}

TEST_CASE("formats: an empty profile is written as its golden files say") {
    check_golden("empty.collapsed", render("collapsed", test::empty_profile()));
    check_golden("empty.speedscope.json", render("speedscope", test::empty_profile()));
    check_golden("empty.svg", render("flamegraph", test::empty_profile()));
}
