// SPDX-License-Identifier: Apache-2.0
//
// The second oracle: the offsets that the types of each interpreter tell of their own members
// (members/*.txt, printed by print_members.py) against Layout.
#include "layouts/fields.h"
#include "layouts/interpreters.h"
#include "support/files.h"
#include "support/known_layouts.h"

#include <catch2/catch.hpp>

#include <sstream>

using namespace pyprof;
using namespace pyprof::test;

namespace {

const std::string kDirectory = PYPROF_TEST_DIR "/layouts";

// Members whose place is a field of Layout.
const std::map<std::string, std::string> kFieldOfMember = {
    {"code.co_filename", "code.filename"},
    {"code.co_name", "code.name"},
    {"code.co_qualname", "code.qualname"},
    {"code.co_firstlineno", "code.first_line"},
    {"code.co_linetable", "code.line_table"},
    {"code.co_lnotab", "code.line_table"},
    {"code.co_code", "code.bytecode"},
    {"code.co_flags", "code.flags"},
    {"code.co_argcount", "code.argument_count"},
    {"code.co_varnames", "code.local_names"},
    {"frame.f_back", "frame.back"},
    {"frame.f_code", "frame.code"},
    {"frame.f_lasti", "frame.instruction"},
    {"generator.gi_frame", "generator.frame"},
    {"module.__dict__", "module.dict"},
    {"type.__basicsize__", "type.basic_size"},
    {"type.__flags__", "type.flags"},
    {"type.__dictoffset__", "type.dict_offset"},
    {"type.__base__", "type.base"},
    {"object.header", "object.header_size"},
};

std::map<std::string, long> parse_members(const std::string& text) {
    std::map<std::string, long> members;
    std::istringstream lines(text);
    std::string name;
    long offset = 0;
    while (lines >> name >> offset) members[name] = offset;
    return members;
}

std::string minor_version_of(const std::string& build) {
    return build.substr(0, build.find('.', 2));
}

}  // namespace

TEST_CASE("layouts: members stand where the types themselves say") {
    const auto layouts = known_layouts(PYPROF_TEST_DIR);
    for (const std::string& build : files_in(kDirectory + "/members", ".txt")) {
        const auto known = std::find_if(layouts.begin(), layouts.end(), [&](const KnownLayout& each) {
            return each.name == build || each.name == minor_version_of(build);
        });
        CAPTURE(build);
        REQUIRE(known != layouts.end());
        const auto fields = fields_of(known->layout);
        std::size_t compared = 0;
        for (const auto& [member, offset] :
             parse_members(read_text(kDirectory + "/members/" + build + ".txt"))) {
            const auto field = kFieldOfMember.find(member);
            if (field == kFieldOfMember.end()) continue;
            CAPTURE(member);
            CHECK(fields.at(field->second) == offset);
            ++compared;
        }
        CHECK(compared >= 13);
    }
}

TEST_CASE("layouts: the stored members are those of the interpreters of this machine") {
    const auto all = interpreters(PYPROF_TEST_DIR);
    if (all.empty()) WARN("skip: scripts/pythons knows no interpreter here");
    const std::string source = read_text(kDirectory + "/print_members.py");
    for (const Interpreter& interpreter : all) {
        const auto stored = read_text(kDirectory + "/members/" + interpreter.build() + ".txt");
        if (stored.empty()) {
            WARN("skip " << interpreter.build() << ": another patch release is stored");
            continue;
        }
        CAPTURE(interpreter.build());
        PythonProgram program(interpreter, source);
        std::string printed;
        for (const std::string& line : program.read_until_ready()) printed += line + "\n";
        CHECK(printed == stored);
    }
}
