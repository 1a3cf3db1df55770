// SPDX-License-Identifier: Apache-2.0
//
// Words, colours and escapes of the pictures.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "output/describe.h"
#include "output/palette.h"
#include "output/xml.h"
#include "unit/output/sample_profiles.h"

using namespace pyprof;

TEST_CASE("xml: markup is escaped, control bytes are visible, forbidden code points replaced") {
    CHECK(xml_text("<module> & \"x\" 'y'") == "&lt;module&gt; &amp; &quot;x&quot; &#39;y&#39;");
    CHECK(xml_text("a\x01\nb\x7F") == "a\\x01\\x0ab\\x7f");
    CHECK(xml_text(std::string("nul\0!", 5)) == "nul\\x00!");
    CHECK(xml_text("\xEF\xBF\xBE \xEF\xBF\xBF \xEF\xBF\xBD") == "\xEF\xBF\xBD \xEF\xBF\xBD \xEF\xBF\xBD");
    CHECK(xml_text("caf\xC3\xA9 \xF0\x9F\x90\x8D") == "caf\xC3\xA9 \xF0\x9F\x90\x8D");
    CHECK(xml_text("]]>") == "]]&gt;");
}

TEST_CASE("describe: numbers and shares") {
    CHECK(with_commas(0) == "0");
    CHECK(with_commas(999) == "999");
    CHECK(with_commas(1000) == "1,000");
    CHECK(with_commas(1234567) == "1,234,567");
    CHECK(samples_text(1) == "1 sample");
    CHECK(samples_text(0) == "0 samples");
    CHECK(share_text(1, 3) == "33.33%");
    CHECK(share_text(3, 3) == "100.00%");
    CHECK(share_text(0, 0) == "0%");
}

TEST_CASE("describe: the command as one would type it") {
    ProfileFacts facts;
    CHECK(command_text(facts) == "unknown command");
    facts.command = {"python3", "-c", "print('x; y')", "", "a\nb", "\xFF"};
    CHECK(command_text(facts) == "python3 -c 'print('\\''x; y'\\'')' '' 'a\\x0ab' \\xff");
}

TEST_CASE("describe: every percentage names its base") {
    ResolvedProfile profile = test::service_profile();
    CHECK(base_text(profile) == "100 samples of running threads");
    profile.facts.which_threads = "all";
    CHECK(base_text(profile) == "100 samples of all threads");
    profile.facts.which_threads = "GIL-holding";
    CHECK(base_text(profile) == "100 samples of the GIL's holder");
    profile.facts.which_threads.clear();
    CHECK(base_text(profile) == "100 samples");
}

TEST_CASE("describe: settings and counts") {
    ResolvedProfile profile = test::service_profile();
    CHECK(setting_text(profile) ==
          "pid 4711 \xC2\xB7 Python 3.12.1 \xC2\xB7 100 Hz asked, 74.0 Hz reached by the busiest thread "
          "\xC2\xB7 1.0 s");
    CHECK(count_text(profile) == "100 samples, 2 refused, 1 truncated");
    profile.figures.lost = 4;
    profile.figures.inferred = 3;
    CHECK(count_text(profile) == "100 samples, 2 refused, 1 truncated, 3 inferred, 4 lost");
    profile.figures.late = 1'234;
    profile.figures.paused = std::chrono::milliseconds(2'500);
    profile.figures.stops = 6;
    profile.figures.stopped = std::chrono::microseconds(300);
    CHECK(count_text(profile) ==
          "100 samples, 2 refused, 1 truncated, 3 inferred, 4 lost, 1,234 late, 2.5 s not looked at, 6 short stops (0.3 ms in all)");
    profile.figures.profiler_cpu = std::chrono::milliseconds(12);
    CHECK_THAT(setting_text(profile), Catch::EndsWith("1.0 s \xC2\xB7 pyprof used 1.2% of a processor"));
    profile.figures.profiler_cpu = {};
    profile.facts.rate_hz = 0;
    profile.facts.python.clear();
    profile.figures.busiest_thread_samples = 123456;
    CHECK(setting_text(profile) ==
          "pid 4711 \xC2\xB7 as fast as can be, 123,456 Hz reached by the busiest thread, which disturbs the program \xC2\xB7 1.0 s");
}

TEST_CASE("palette: the family tells where a file belongs, the shade hangs on the module alone") {
    const auto colour = [](const std::string& name, const std::string& file) {
        return colour_class({FrameKind::kPython, name, "", file, 1}, "/srv");
    };
    CHECK(colour("f", "/srv/app.py")[0] == 'o');
    CHECK(colour("f", "/srv/venv/lib/python3.9/site-packages/x/y.py")[0] == 'p');
    CHECK(colour("f", "/usr/lib/python3.9/json/decoder.py")[0] == 's');
    CHECK(colour("f", "<frozen importlib._bootstrap>")[0] == 's');
    CHECK(colour("f", "")[0] == 'o');
    CHECK(colour_class({FrameKind::kMarker, "[gc]", "", "", 0}, "") == "m");
    const auto native = [](const std::string& name, const std::string& module) {
        return colour_class({FrameKind::kNative, name, "", "", 0, module}, "");
    };
    CHECK(native("read", "libc.so.6")[0] == 'n');
    CHECK(native("read", "libc.so.6").substr(0, 2) == native("write", "libc.so.6").substr(0, 2));
    CHECK(native("f", "libz.so.1").substr(0, 2) != native("f", "libcrypto.so.3").substr(0, 2));

    // Another place, line or Python does not change it; another function only the tone.
    CHECK(colour("f", "/usr/lib/python3.9/json/decoder.py") ==
          colour("f", "/opt/lib/python3.12/json/encoder.py"));
    CHECK(colour("f", "/srv/app.py").substr(0, 2) == colour("g", "/srv/app.py").substr(0, 2));
    std::set<std::string> shades;
    for (int i = 0; i < 200; ++i)
        shades.insert(colour("f", "/srv/m" + std::to_string(i) + ".py").substr(0, 2));
    CHECK(shades.size() == 8);
}
