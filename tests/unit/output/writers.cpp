// SPDX-License-Identifier: Apache-2.0
//
// What golden files do not show well: the rules of each format on odd profiles.
#include "output/writers.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "unit/output/sample_profiles.h"

using namespace pyprof;
using pyprof::test::ProfileBuilder;

namespace {

template <class Write>
std::string render(Write write, const ResolvedProfile& profile) {
    std::ostringstream out;
    write(profile, ExportOptions{}, out);
    return out.str();
}

rapidjson::Document speedscope(const ResolvedProfile& profile) {
    rapidjson::Document document;
    document.Parse(render(write_speedscope, profile).c_str());
    REQUIRE_FALSE(document.HasParseError());
    return document;
}

}  // namespace

TEST_CASE("collapsed: names can't break a line or a stack") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "main", true);
    builder.add(main, {builder.marker("[thread a;b\r\n]"), builder.python("f 12", "x;y.py", 3)}, 7);
    CHECK(render(write_collapsed, builder.profile()) == "[thread a\\x3bb\\x0d\\x0a];f 12 (x\\x3by.py:3) 7\n");
}

TEST_CASE("collapsed: is sorted and joins equal stacks, whatever the thread and the order") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "main", true);
    const ThreadIndex worker = builder.thread(2, "worker");
    const auto b = builder.python("b", "m.py", 0);
    const auto a = builder.python("a", "m.py", 0);
    builder.add(main, {b}, 1);
    builder.add(worker, {a, b}, 2);
    builder.add(main, {a, b}, 3);
    builder.add(main, {}, 4);
    CHECK(render(write_collapsed, builder.profile()) == "[no frames] 4\na (m.py);b (m.py) 5\nb (m.py) 1\n");
}

TEST_CASE("collapsed: stacks of 10,000 frames are whole") {
    const std::string text = render(write_collapsed, test::deep_profile(10'000));
    const std::size_t last_line = text.rfind('\n', text.size() - 2) + 1;
    const std::string last = text.substr(last_line);
    CHECK(std::count(last.begin(), last.end(), ';') == 10'000);
    CHECK(last.substr(last.rfind(';')) == ";leaf (deep.py:2) 50\n");
}

TEST_CASE("speedscope: samples and weights are equally many, frames exist, and time adds up") {
    for (const ResolvedProfile& profile :
         {test::service_profile(), test::deep_profile(500), test::empty_profile()}) {
        const rapidjson::Document document = speedscope(profile);
        const auto frames = document["shared"]["frames"].Size();
        REQUIRE(document["profiles"].Size() >= 1);
        CHECK(document["activeProfileIndex"].GetUint() < document["profiles"].Size());
        for (const auto& each : document["profiles"].GetArray()) {
            REQUIRE(each["samples"].Size() == each["weights"].Size());
            std::int64_t sum = 0;
            for (const auto& weight : each["weights"].GetArray()) sum += weight.GetInt64();
            CHECK(each["endValue"].GetInt64() - each["startValue"].GetInt64() == sum);
            bool frames_exist = true;
            for (const auto& sample : each["samples"].GetArray()) {
                for (const auto& frame : sample.GetArray())
                    frames_exist = frames_exist && frame.GetUint() < frames;
            }
            CHECK(frames_exist);
        }
    }
}

TEST_CASE("speedscope: the busiest thread comes first, of equals the main one; silent ones are left out") {
    ProfileBuilder builder;
    builder.thread(1, "silent");
    const ThreadIndex worker = builder.thread(2, "worker");
    const ThreadIndex main = builder.thread(3, "MainThread", true);
    const ThreadIndex busy = builder.thread(4, "");
    const auto f = builder.python("f", "m.py", 1);
    builder.add(worker, {f}, 2, 20);
    builder.add(main, {f}, 2, 20);
    builder.add(busy, {f}, 3, 30);
    const rapidjson::Document document = speedscope(builder.profile());
    REQUIRE(document["profiles"].Size() == 3);
    CHECK(std::string(document["profiles"][0]["name"].GetString()) == "thread 4");
    CHECK(std::string(document["profiles"][1]["name"].GetString()) == "MainThread (thread 3)");
    CHECK(std::string(document["profiles"][2]["name"].GetString()) == "worker (thread 2)");
}

TEST_CASE("speedscope: time in which a thread was not seen is an empty stack, jitter is not") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "MainThread", true);
    const auto f = builder.python("f", "m.py", 1);
    const auto g = builder.python("g", "m.py", 2);
    builder.add(main, {f}, 1, 10);
    builder.add(main, {g}, 1, 23);   // 3 ms late
    builder.add(main, {f}, 1, 100);  // slept
    builder.profile().figures.elapsed = std::chrono::milliseconds(120);
    const rapidjson::Document document = speedscope(builder.profile());
    const auto& profile = document["profiles"][0];
    const std::size_t expected_depths[] = {1, 1, 0, 1, 0};
    const std::int64_t expected_ms[] = {10, 10, 70, 10, 20};
    REQUIRE(profile["samples"].Size() == 5);
    for (rapidjson::SizeType i = 0; i < 5; ++i) {
        CHECK(profile["samples"][i].Size() == expected_depths[i]);
        CHECK(profile["weights"][i].GetInt64() == expected_ms[i] * 1'000'000);
    }
}

TEST_CASE("speedscope: of stacks too deep for the viewer the middle is left out under a marker") {
    const rapidjson::Document document = speedscope(test::deep_profile(10'000));
    const auto& frames = document["shared"]["frames"];
    const auto& samples = document["profiles"][0]["samples"];
    const auto& stack = samples[samples.Size() - 1];
    REQUIRE(stack.Size() == 3001);
    const auto name = [&](rapidjson::SizeType i) {
        return std::string(frames[stack[i].GetUint()]["name"].GetString());
    };
    CHECK(name(0) == "<module>");
    CHECK(name(1499) == "descend");
    CHECK(name(1500) == "[frames left out]");
    CHECK(name(1501) == "descend");
    CHECK(name(3000) == "leaf");
}

TEST_CASE("speedscope: without spans the weights alone are written") {
    ProfileBuilder builder;
    const ThreadIndex main = builder.thread(1, "MainThread", true);
    builder.add(main, {builder.python("f", "m.py", 1)}, 3);
    const rapidjson::Document document = speedscope(builder.profile());
    CHECK(document["profiles"][0]["endValue"].GetInt64() == 30'000'000);
    CHECK_THAT(document["profiles"][0]["name"].GetString(), Catch::EndsWith("sums without order of time"));
}

TEST_CASE("flame graph: labels, base and counts are told and escaped") {
    const std::string text = render(write_flamegraph, test::service_profile());
    CHECK_THAT(text, Catch::Contains(
                         "<title>Service.serve (app.py:41)\n74 samples, 74.00% of 100 samples of running "
                         "threads</title>"));
    CHECK_THAT(text, Catch::Contains("a;b\\x0a\\x1b[31mc") && Catch::Contains("odd &amp; &lt;file&gt;.py"));
    CHECK_THAT(text, Catch::Contains("2 refused, 1 truncated") && Catch::Contains("Python 3.12.1"));
    CHECK_THAT(text, !Catch::Contains("not drawn") && !Catch::Contains("\x1B"));
}

TEST_CASE("formats: those that can carry the recording's own figures do, all of them") {
    ResolvedProfile profile = test::service_profile();
    profile.figures.late = 7;
    profile.figures.stops = 3;
    profile.figures.remote_reads = 1'000;
    profile.figures.profiler_cpu = std::chrono::milliseconds(12);
    const rapidjson::Document viewed = speedscope(profile);
    const std::string picture = render(write_flamegraph, profile);
    const std::size_t begin = picture.find("<metadata>") + 10;
    std::string text = picture.substr(begin, picture.find("</metadata>") - begin);
    for (std::size_t at = text.find("&quot;"); at != std::string::npos; at = text.find("&quot;")) text.replace(at, 6, "\"");
    rapidjson::Document drawn;
    drawn.Parse(text.c_str());
    REQUIRE_FALSE(drawn.HasParseError());
    CHECK(drawn == viewed["pyprof"]);
    const std::pair<const char*, double> expected[] = {{"samples", 100}, {"reused", 0}, {"truncated", 1},          {"refused", 2},          {"late", 7},
                                                       {"stops", 3},     {"errors", 0}, {"remote_reads", 1'000},   {"profiler_cpu_s", 0.012}, {"elapsed_s", 1}};
    for (const auto& [key, value] : expected) {
        INFO(key);
        REQUIRE(drawn.HasMember(key));
        CHECK(drawn[key].GetDouble() == Approx(value));
    }
    CHECK_THAT(picture, Catch::Contains("1 truncated, 7 late, 3 short stops") && Catch::Contains("pyprof used 1.2% of a processor"));
}

TEST_CASE("flame graph: what is not drawn is counted in the picture") {
    const std::string deep = render(write_flamegraph, test::deep_profile(10'000));
    CHECK_THAT(deep,
               Catch::Contains("97 samples (97.98%) go deeper than is drawn, which is 499 rows at most"));
    const std::string wide = render(write_flamegraph, test::wide_profile(20'000));
    CHECK_THAT(wide, Catch::Contains("narrow frames are not drawn; each has at most"));
}
