// SPDX-License-Identifier: Apache-2.0
//
// Names that a stripped file does not hold itself, from all the places where they may be. What they must be says nm of
// the file as it was before, or objdump.
#include "built.h"

#include <fmt/format.h>

using namespace pyprof;
using namespace pyprof::test;

namespace {

constexpr auto kShop = R"(
static __attribute__((noinline)) int inner_work(int n) { int sum = 0; while (n > 0) sum += n--; return sum; }
int work(int n) { return inner_work(n) + 1; }
)";

// shop.so without names of its own functions, and full.so as it was linked.
struct Shop {
    BuildDirectory directory;
    FileAddress inner{};

    explicit Shop(const std::string& flags) {
        directory.build("shop", kShop, flags);
        directory.run("cp shop.so full.so && strip shop.so");
        inner = directory.address_of("full.so", "inner_work");
    }
    // With debug files below the directory.
    [[nodiscard]] NativePlace find() const {
        ModuleSymbols symbols(directory.open("shop.so"), "/opt/shop.so", "shop.so", {{directory.path()}, {}});
        return symbols.find(inner);
    }
    [[nodiscard]] std::string name() const { return find().functions.back().name; }
    // Where the debug file of its build-id is looked for.
    [[nodiscard]] std::string place_by_id() const {
        std::string hex;
        for (const std::byte byte : directory.open("full.so")->build_id()) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
        REQUIRE(hex.size() > 2);
        return "usr/lib/debug/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug";
    }
    // Puts a file there.
    void install(const std::string& from, const std::string& to) const {
        directory.run("mkdir -p $(dirname " + to + ") && cp " + from + " " + to);
    }
};

constexpr auto kWithId = "-Wl,--build-id=sha1";
constexpr auto kWithoutId = "-Wl,--build-id=none";

// Has the names that objdump gives to the stubs of `section`, at their first and last bytes.
void check_stubs(const BuildDirectory& directory, const std::string& section, const std::string& function) {
    INFO(section);
    const std::string stub = function + "@plt";
    const FileAddress start = directory.address("objdump -d -j " + section + " shop.so", "/<" + stub + ">:$/");
    ModuleSymbols symbols(directory.open("shop.so"), "/opt/shop.so", "shop.so", {});
    for (const std::uint64_t inside : {0U, 4U, 7U}) {
        const NativePlace place = symbols.find(FileAddress{raw(start) + inside});
        CHECK(place.functions.back().name == stub);
        CHECK(place.has_name);
    }
}

}  // namespace

TEST_CASE("debug files: the packed table of a stripped file names its functions") {
    const Shop shop(kWithId);
    CHECK(shop.name().substr(0, 10) == "shop.so+0x");
    shop.directory.run("strip --only-keep-debug -o packed full.so && xz packed && objcopy --add-section .gnu_debugdata=packed.xz shop.so");
    CHECK(shop.name() == "inner_work");
}

TEST_CASE("debug files: one for the build-id names functions and lines, one for another build-id does not") {
    const Shop shop(std::string(kWithId) + " -g");
    shop.directory.run("objcopy --only-keep-debug full.so mine.debug");
    shop.directory.build("other", kShop, std::string(kWithId) + " -g -DOTHER -O0");
    shop.install("other.so", shop.place_by_id());
    CHECK(shop.name().substr(0, 10) == "shop.so+0x");
    shop.install("mine.debug", shop.place_by_id());
    const NativePlace place = shop.find();
    CHECK(place.functions.back().name == "inner_work");
    CHECK(place.functions.back().line == 2);
    CHECK(module_name(place.functions.back().file) == "shop.c");
}

TEST_CASE("debug files: one that the debug link names is taken beside the file, in .debug and below /usr/lib/debug") {
    for (const char* place : {"opt/shop.debug", "opt/.debug/shop.debug", "usr/lib/debug/opt/shop.debug"}) {
        const Shop shop(kWithoutId);
        shop.directory.run("objcopy --only-keep-debug full.so shop.debug && objcopy --add-gnu-debuglink=shop.debug shop.so");
        CHECK(shop.name().substr(0, 10) == "shop.so+0x");
        shop.install("shop.debug", place);
        CHECK(shop.name() == "inner_work");
        shop.directory.run(std::string("echo >> ") + place);  // its checksum is another one now
        CHECK(shop.name().substr(0, 10) == "shop.so+0x");
    }
}

#ifdef __x86_64__
TEST_CASE("debug files: stubs of the PLT are named after what they jump to, with and without IBT") {
    // Called and its address taken: such a function has its stub in .plt.got.
    constexpr auto kCalls = R"(
extern int near_one(int); extern int far_one(int);
int (*taken(void))(int) { return far_one; }
int work(int n) { return near_one(n) + far_one(n) + near_one(n + 1); }
)";
    const BuildDirectory directory;
    directory.build("shop", kCalls, "-fcf-protection=none -Wl,-z,lazy");
    check_stubs(directory, ".plt", "near_one");
    check_stubs(directory, ".plt.got", "far_one");
    directory.build("shop", kCalls, "-fcf-protection=full -Wl,-z,lazy,-z,ibtplt");
    check_stubs(directory, ".plt.sec", "near_one");
    check_stubs(directory, ".plt.got", "far_one");
}
#endif
