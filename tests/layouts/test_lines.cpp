// SPDX-License-Identifier: Apache-2.0
//
// LineTable against the interpreters: make_lines.py stores what each says of the lines of its own code
// (code.co_lines(), dis.findlinestarts()); every instruction of every code object must have that line.
#include "layouts/facts.h"
#include "layouts/interpreters.h"
#include "python/line_table.h"
#include "support/files.h"

#include <catch2/catch.hpp>

#include <set>
#include <span>
#include <sstream>

using namespace pyprof;
using namespace pyprof::test;

namespace {

LineTableKind kind_of(int minor) {
    if (minor <= 9) return LineTableKind::kLnotab;
    return minor == 10 ? LineTableKind::kLinetable : LineTableKind::kLocations;
}

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

// "begin:end:line"
struct LineRange {
    explicit LineRange(const std::string& text) {
        std::istringstream stream(text);
        char colon = 0;
        stream >> begin >> colon >> end >> colon >> line;
    }
    std::size_t begin = 0;
    std::size_t end = 0;
    int line = 0;
};

// The number of instructions whose line was compared. Words: name, first line, count, table, ranges.
std::size_t check_code(const Fact& code, LineTableKind kind) {
    constexpr std::size_t kFirstRange = 4;
    const int first_line = std::stoi(code.words.at(1));
    const int unit_count = std::stoi(code.words.at(2));
    const auto table = LineTable::decode(bytes_of(code.text(3)), first_line, kind, unit_count);
    CAPTURE(code.words.at(0), first_line);
    std::vector<int> expected(static_cast<std::size_t>(unit_count), LineTable::kNoLine);
    for (std::size_t i = kFirstRange; i < code.words.size(); ++i) {
        const LineRange range(code.words[i]);
        for (std::size_t unit = range.begin; unit < range.end; ++unit) expected.at(unit) = range.line;
    }
    std::vector<int> actual;
    for (int i = 0; i < unit_count; ++i) actual.push_back(table.line_at(i));
    CHECK(actual == expected);
    CHECK(table.line_at(-1) == first_line);
    CHECK(table.line_at(unit_count) == LineTable::kNoLine);
    CHECK(table.range_count() <= code.words.size() - kFirstRange + 1);
    return actual.size();
}

std::size_t check_all(const std::vector<std::string>& lines, int minor) {
    std::size_t count = 0;
    for (const Fact& code : parse_facts(lines)) {
        REQUIRE(code.kind == "code");
        count += check_code(code, kind_of(minor));
    }
    return count;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

}  // namespace

TEST_CASE("lines: every instruction of every version's samples has the line that the version says") {
    const std::string directory = PYPROF_TEST_DIR "/layouts/lines";
    std::set<int> minors;
    for (const std::string& build : files_in(directory, ".txt")) {
        CAPTURE(build);
        const int minor = std::stoi(build.substr(2));
        minors.insert(minor);
        CHECK(check_all(lines_of(read_text(directory + "/" + build + ".txt")), minor) > 1000);
    }
    CHECK(minors == std::set<int>{8, 9, 10, 11, 12, 13, 14, 15});
}

TEST_CASE("lines: a part of the library of each interpreter here has the lines that it says") {
    const std::string source = read_text(PYPROF_TEST_DIR "/layouts/make_lines.py");
    for (const Interpreter& interpreter : interpreters(PYPROF_TEST_DIR)) {
        CAPTURE(interpreter.build());
        Interpreter quiet = interpreter;
        quiet.command.insert(quiet.command.end(), {"-W", "ignore"});
        PythonProgram program(quiet, source, {"--library"});
        CHECK(check_all(program.read_until_ready(), std::stoi(interpreter.version.substr(2))) > 20000);
    }
}
