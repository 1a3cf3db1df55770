// SPDX-License-Identifier: Apache-2.0
//
// Large pictures for tests/browser, which are too big to be kept as golden files. Hidden: run with
// "[pictures]" and PYPROF_PICTURES naming the directory to write to.
#include <pyprof/exporter.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "unit/output/sample_profiles.h"

using namespace pyprof;

namespace {

void write(const std::string& name, const ResolvedProfile& profile, bool inverted = false) {
    const char* directory = std::getenv("PYPROF_PICTURES");
    REQUIRE(directory != nullptr);
    ExportOptions options;
    options.inverted = inverted;
    const std::string path = std::string(directory) + "/" + name;
    std::ofstream out(path);
    format_of_path(path)->write(profile, options, out);
    REQUIRE(out);
}

}  // namespace

TEST_CASE("pictures: a wide program, a deep one and a plain one", "[.][pictures]") {
    write("wide.svg", test::wide_profile(300'000));
    write("wide.inverted.svg", test::wide_profile(300'000), true);
    write("modest.svg", test::wide_profile(3'000));
    write("modest.collapsed", test::wide_profile(3'000));
    write("modest.speedscope.json", test::wide_profile(3'000));
    write("deep.svg", test::deep_profile(10'000));
    write("deep.inverted.svg", test::deep_profile(10'000), true);
    write("deep.speedscope.json", test::deep_profile(10'000));
    write("deep.collapsed", test::deep_profile(10'000));
}
