// SPDX-License-Identifier: Apache-2.0
//
// LineTable against the interpreters: make_lines.py stores what each says of the lines of its own code
// (code.co_lines(), dis.findlinestarts()); every instruction of every code object must have that line.
#include "layouts/interpreters.h"
#include "python/line_table.h"
#include "support/files.h"

#include <catch2/catch.hpp>
#include <rapidjson/document.h>

using namespace pyprof;
using namespace pyprof::test;

namespace {

LineTableKind kind_of(int minor) {
    if (minor <= 9) return LineTableKind::kLnotab;
    return minor == 10 ? LineTableKind::kLinetable : LineTableKind::kLocations;
}

std::vector<std::byte> bytes_of(const std::string& hex) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 2 <= hex.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

// The number of instructions whose line was compared.
std::size_t check_code(const rapidjson::Value& code, LineTableKind kind) {
    const int first_line = code["first_line"].GetInt();
    const int unit_count = code["unit_count"].GetInt();
    const auto table = LineTable::decode(bytes_of(code["table"].GetString()), first_line, kind, unit_count);
    CAPTURE(code["name"].GetString(), first_line);
    std::vector<int> expected(static_cast<std::size_t>(unit_count), LineTable::kNoLine);
    for (const auto& range : code["ranges"].GetArray()) {
        const int line = range[2].IsNull() ? LineTable::kNoLine : range[2].GetInt();
        for (int i = range[0].GetInt(); i < range[1].GetInt(); ++i) expected.at(static_cast<std::size_t>(i)) = line;
    }
    std::vector<int> actual;
    for (int i = 0; i < unit_count; ++i) actual.push_back(table.line_at(i));
    CHECK(actual == expected);
    CHECK(table.line_at(-1) == first_line);
    CHECK(table.line_at(unit_count) == LineTable::kNoLine);
    CHECK(table.range_count() <= static_cast<std::size_t>(code["ranges"].Size()) + 1);
    return actual.size();
}

std::size_t check_all(const std::string& json, int minor) {
    rapidjson::Document document;
    document.Parse(json.data(), json.size());
    REQUIRE(document.IsArray());
    std::size_t count = 0;
    for (const auto& code : document.GetArray()) count += check_code(code, kind_of(minor));
    return count;
}

}  // namespace

TEST_CASE("lines: every instruction of every version's samples has the line that the version says") {
    const std::string directory = PYPROF_TEST_DIR "/layouts/lines";
    for (int minor = 8; minor <= 15; ++minor) {
        CAPTURE(minor);
        const std::string json = read_text(directory + "/3." + std::to_string(minor) + ".json");
        REQUIRE_FALSE(json.empty());
        CHECK(check_all(json, minor) > 1000);
    }
}

TEST_CASE("lines: a part of the library of each interpreter here has the lines that it says") {
    const std::string source = read_text(PYPROF_TEST_DIR "/layouts/make_lines.py");
    for (const Interpreter& interpreter : interpreters(PYPROF_TEST_DIR)) {
        CAPTURE(interpreter.build());
        Interpreter quiet = interpreter;
        quiet.command.insert(quiet.command.end(), {"-W", "ignore"});
        PythonProgram program(quiet, source, {"--library"});
        std::string json;
        for (const std::string& line : program.read_until_ready()) json += line;
        CHECK(check_all(json, std::stoi(interpreter.version.substr(2))) > 20000);
    }
}
