// SPDX-License-Identifier: Apache-2.0
#include "native/loop_code.h"

#include "elf/elf_module.h"

#include "built.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr auto kLoops = R"(
#define PART(number, name) int part##number(int x) __asm__(name); int part##number(int x) { return x + number; }
PART(0, "_PyEval_EvalFrameDefault")
#pragma GCC visibility push(hidden)
PART(1, "_PyEval_EvalFrameDefault.cold")
PART(2, "_PyEval_EvalFrameDefault.cold.2962")
PART(3, "_PyEval_EvalFrameDefault.constprop.0.part.7")
PART(4, "_PyEval_EvalFrameDefaultly")
PART(5, "_PyEval_EvalFrame")
)";

using Addresses = std::vector<FileAddress>;

// loops.so, and full.so as it was linked; only the loop itself is exported.
struct Loops {
    BuildDirectory directory;
    Loops() {
        directory.build("loops", kLoops, "-Wl,--build-id=none");
        directory.run("cp loops.so full.so");
    }
    [[nodiscard]] Addresses find() const {
        auto module = open_elf_module(UniqueFd(::open((directory.path() + "/loops.so").c_str(), O_RDONLY | O_CLOEXEC)), "loops");
        REQUIRE(module);
        Addresses found;
        for (const ModuleFile::Section& part : find_loop_code(**module, "/opt/loops.so", {{directory.path()}, {}})) {
            CHECK(part.size > 0);
            found.push_back(part.address);
        }
        std::sort(found.begin(), found.end());
        return found;
    }
    [[nodiscard]] Addresses expected(const std::vector<std::string>& suffixes) const {
        Addresses addresses;
        for (const std::string& suffix : suffixes) addresses.push_back(directory.address_of("full.so", "_PyEval_EvalFrameDefault" + suffix));
        std::sort(addresses.begin(), addresses.end());
        return addresses;
    }
};

const std::vector<std::string> kAll{"", ".cold", ".cold.2962", ".constprop.0.part.7"};

}  // namespace

TEST_CASE("loop code: the interpreter's loop and all parts that a compiler has made of it") {
    const Loops loops;
    CHECK(loops.find() == loops.expected(kAll));
}

TEST_CASE("loop code: of a stripped file the parts are named by its debug file, or by its packed table") {
    const Loops loops;
    loops.directory.run("objcopy --only-keep-debug full.so loops.debug && strip loops.so && objcopy --add-gnu-debuglink=loops.debug loops.so");
    CHECK(loops.find() == loops.expected({""}));
    loops.directory.run("mkdir opt && cp loops.debug opt");
    CHECK(loops.find() == loops.expected(kAll));
    loops.directory.run("rm opt/loops.debug && strip --only-keep-debug -o packed full.so && xz packed && "
                        "objcopy --add-section .gnu_debugdata=packed.xz loops.so");
    CHECK(loops.find() == loops.expected(kAll));
}
