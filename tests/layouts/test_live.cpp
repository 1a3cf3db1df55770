// SPDX-License-Identifier: Apache-2.0
//
// The readers of objects against living interpreters: live_objects.py says what its objects are, the
// readers must see the same from outside. One run for each interpreter that is there.
#include "layouts/facts.h"
#include "layouts/interpreters.h"
#include "python/layouts.h"
#include "python/objects.h"
#include "python/thread_names.h"
#include "support/files.h"
#include "target/process_memory.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct Reader {
    ProcessMemory memory;
    Layout layout;
    Address interpreter{};
};

std::string as_text(const std::vector<std::byte>& bytes) {
    std::string text;
    for (const std::byte byte : bytes)
        text.push_back(static_cast<char>(std::to_integer<unsigned char>(byte)));
    return text;
}

// The order of a shared-key table is not that of the insertions, so entries are compared by key.
void check_dict(Reader& reader, const Fact& fact) {
    constexpr std::size_t kLookUps = 5;
    std::map<std::string, Address> expected;
    for (std::size_t i = 1; i + 1 < fact.words.size(); i += 2) expected[fact.text(i)] = fact.address(i + 1);
    const auto entries = read_dict(reader.memory, reader.layout, fact.address());
    REQUIRE(entries);
    REQUIRE(entries->size() == expected.size());
    const std::size_t step = std::max<std::size_t>(entries->size() / kLookUps, 1);
    for (std::size_t i = 0; i < entries->size(); ++i) {
        const auto key = read_unicode(reader.memory, reader.layout, (*entries)[i].key);
        REQUIRE(key);
        const auto found = expected.find(*key);
        REQUIRE(found != expected.end());
        REQUIRE((*entries)[i].value == found->second);
        const bool is_ascii = std::all_of(key->begin(), key->end(), [](char c) { return c >= 0; });
        if (!is_ascii || i % step != 0) continue;
        CHECK(find_in_dict(reader.memory, reader.layout, fact.address(), *key) == found->second);
    }
    CHECK(find_in_dict(reader.memory, reader.layout, fact.address(), "no such key") == kNullAddress);
}

void check_fact(Reader& reader, ThreadNames& names, const Fact& fact) {
    Memory& memory = reader.memory;
    const Layout& layout = reader.layout;
    if (fact.kind == "str") {
        CHECK(read_unicode(memory, layout, fact.address()) == fact.text(1));
    } else if (fact.kind == "int") {
        CHECK(read_long(memory, layout, fact.address()) == fact.number(1));
        CHECK(read_longs(memory, layout, {fact.address()}).at(0) == fact.number(1));
    } else if (fact.kind == "bigint") {
        CHECK_FALSE(read_long(memory, layout, fact.address()));
    } else if (fact.kind == "bytes") {
        const auto content = read_bytes_object(memory, layout, fact.address(), 4096);
        REQUIRE(content);
        CHECK(as_text(*content) == fact.text(1));
    } else if (fact.kind == "tuple") {
        const auto items = read_tuple(memory, layout, fact.address(), 1000);
        REQUIRE(items);
        REQUIRE(items->size() == fact.words.size() - 1);
        for (std::size_t i = 0; i < items->size(); ++i) CHECK((*items)[i] == fact.address(i + 1));
    } else if (fact.kind == "dict") {
        check_dict(reader, fact);
    } else if (fact.kind == "find") {
        CHECK(find_in_dict(memory, layout, fact.address(), fact.text(1)) == fact.address(2));
    } else if (fact.kind == "module") {
        CHECK(read_module_dict(memory, layout, fact.address()) == fact.address(1));
    } else if (fact.kind == "attribute") {
        CHECK(read_attribute(memory, layout, fact.address(), fact.text(1)) == fact.address(2));
    } else if (fact.kind == "type") {
        CHECK(type_name(memory, layout, fact.address()) == fact.text(1));
    } else if (fact.kind == "thread") {
        const std::string* name = names.find(memory, fact.number(0));
        CHECK((name != nullptr ? *name : "") == fact.text(1));
    } else {
        CHECK((fact.kind == "runtime" || fact.kind == "ready"));
    }
}

}  // namespace

TEST_CASE("layouts: objects and thread names of living interpreters read as they are") {
    const auto all = interpreters(PYPROF_TEST_DIR);
    if (all.empty()) WARN("skip: scripts/pythons knows no interpreter here");
    for (const Interpreter& interpreter : all) {
        CAPTURE(interpreter.build());
        PythonProgram program(interpreter, read_text(PYPROF_TEST_DIR "/layouts/live_objects.py"));
        const auto facts = parse_facts(program.read_until_ready());
        REQUIRE(facts.size() > 100);
        REQUIRE(facts.back().kind == "ready");
        Reader reader{ProcessMemory(program.pid()), {}, {}};
        const Address runtime = facts.front().address();
        std::vector<std::byte> start(kDebugOffsetsBytes);
        REQUIRE(read_bytes(reader.memory, runtime, start));
        const auto layout = layout_for({3, std::stoi(interpreter.version.substr(2)), 0, 0}, start);
        REQUIRE(layout);
        reader.layout = *layout;
        const auto head = static_cast<std::uint64_t>(layout->runtime.interpreters_head);
        reader.interpreter = read_pointer(reader.memory, runtime + head).value_or(kNullAddress);
        ThreadNames names(reader.layout, reader.interpreter);
        for (const Fact& fact : facts) {
            CAPTURE(fact.kind, fact.words.empty() ? "" : fact.words.front(),
                    fact.words.size() > 1 ? fact.words[1] : "");
            check_fact(reader, names, fact);
        }
    }
}
