// SPDX-License-Identifier: Apache-2.0
#include "output/json_writer.h"

#include <catch2/catch.hpp>
#include <rapidjson/document.h>

#include <algorithm>

using namespace pyprof;

TEST_CASE("json writer: printable ASCII alone, which any reader takes for the same text") {
    std::string all;
    for (char c = 0; c < 0x7f; ++c) all += c;
    all += "\x7f\xc2\x9b\xc3\xa9\xe2\x80\xae\xf0\x9f\x90\x8d";  // DEL, CSI as one character, é, a mark of direction, a snake
    JsonText json;
    JsonWriter writer(json.stream());
    writer.StartArray();
    put_text(writer, all);
    writer.EndArray();
    const std::string line = json.line();
    CHECK(line.back() == '\n');
    CHECK(std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= ' ' && c < 0x7f; }));
    rapidjson::Document read;
    read.Parse(line.c_str());
    REQUIRE(read.IsArray());
    CHECK(std::string(read[0].GetString(), read[0].GetStringLength()) == all);
}
