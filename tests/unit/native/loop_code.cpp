// SPDX-License-Identifier: Apache-2.0
#include "native/loop_code.h"

#include "elf/elf_module.h"

#include "built.h"

#include <algorithm>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr auto kLoops = R"(
#define PART(number, name) int part##number(int x) __asm__(name); int part##number(int x) { return x + number; }
PART(0, "_PyEval_EvalFrameDefault")
PART(1, "_PyEval_EvalFrameDefault.cold")
PART(2, "_PyEval_EvalFrameDefault.cold.2962")
PART(3, "_PyEval_EvalFrameDefault.constprop.0.part.7")
PART(4, "_PyEval_EvalFrameDefaultly")
PART(5, "_PyEval_EvalFrame")
)";

}  // namespace

TEST_CASE("loop code: the interpreter's loop and all parts that a compiler has made of it") {
    const BuildDirectory directory;
    directory.build("loops", kLoops);
    auto module = open_elf_module(UniqueFd(::open((directory.path() + "/loops.so").c_str(), O_RDONLY | O_CLOEXEC)), "loops");
    REQUIRE(module);
    std::vector<FileAddress> found;
    for (const ModuleFile::Section& part : find_loop_code(**module)) {
        CHECK(part.size > 0);
        found.push_back(part.address);
    }
    std::vector<FileAddress> expected;
    for (const char* suffix : {"", ".cold", ".cold.2962", ".constprop.0.part.7"}) {
        expected.push_back(directory.address_of("loops.so", std::string("_PyEval_EvalFrameDefault") + suffix));
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    CHECK(found == expected);
}
