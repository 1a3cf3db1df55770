// SPDX-License-Identifier: Apache-2.0
//
// The symbols of this very program: what they must be is known from where they stand here.
#include "native/demangle.h"
#include "native/function_starts.h"
#include "native/jit_names.h"
#include "native/machinery.h"
#include "native/module_symbols.h"
#include "native/unpack.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <lzma.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <stdlib.h>

#include <array>
#include <cstring>

namespace pyprof {
namespace {

namespace shop {
volatile int sink = 0;
int line_of_work = 0;

[[gnu::noinline]] const void* return_address() { return __builtin_return_address(0); }

[[gnu::always_inline]] inline const void* inlined_work() {
    line_of_work = __LINE__ + 1;
    const void* here = return_address();
    sink = 1;
    return here;
}
}  // namespace shop

FileAddress in_file(const void* pointer, std::string* path = nullptr) {
    Dl_info info{};
    link_map* map = nullptr;
    REQUIRE(::dladdr1(pointer, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0);
    if (path != nullptr) *path = map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name;
    return FileAddress{reinterpret_cast<std::uint64_t>(pointer) - map->l_addr};
}

ModuleSymbols open_symbols(const std::string& path) {
    auto image = ElfImage::open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
    REQUIRE(image);
    return ModuleSymbols(std::move(image), path, module_name(path), {});
}

}  // namespace

TEST_CASE("demangle: C++ and Rust, suffixes and versions dropped") {
    CHECK(demangle("_ZN6pyprof4shopEv") == "pyprof::shop");
    CHECK(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi.part.0") == "std::vector<int, std::allocator<int> >::push_back");
    CHECK(demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE") == "core::fmt::Write::write_fmt");
    CHECK(demangle("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE.llvm.123") ==
          "<Test + 'static as foo::Bar<Test>>::bar");
    CHECK(demangle("_RNvCs1234_7mycrate3foo") == "mycrate::foo");
    CHECK(demangle("list_sort.isra.0") == "list_sort");
    CHECK(demangle("_PyEval_EvalFrameDefault.cold") == "_PyEval_EvalFrameDefault");
    CHECK(demangle("memcpy@@GLIBC_2.14") == "memcpy");
    CHECK(demangle("memcpy@plt") == "memcpy@plt");
    CHECK(demangle("_ZN6pyprof4shopEv@plt") == "pyprof::shop@plt");
    CHECK(demangle("__GI___clone3") == "__clone3");
    CHECK(demangle("") == "");
    CHECK(demangle(".plt") == ".plt");
    CHECK(demangle("_Z") == "_Z");
}

TEST_CASE("demangle: what compilers append is dropped, in whatever number; other dots are the name's own") {
    for (const char* symbol : {"work.cold", "work.cold.2962", "work.part.0", "work.constprop.0.cold", "work.isra.0.part.1.constprop.2",
                               "work.lto_priv.0.lto_priv.1", "work.localalias", "work.llvm.1234567890", "work.7", "work.7.llvm.12",
                               "work._omp_fn.0", "work.__uniq.99.llvm.3"}) {
        CHECK(demangle(symbol) == "work");
    }
    CHECK(demangle("_ZN4shop4workEv.resume.cold") == "shop::work");
    CHECK(demangle("_RNvCs1234_7mycrate3foo.llvm.12") == "mycrate::foo");
    // Go's, GCC's versions of one function for several processors, and names that only look like what is appended.
    for (const char* symbol : {"runtime.mallocgc", "main.(*T).Foo", "main.main.func1.2", "main.init.0", "main.part", "many.avx2",
                               "work.isra", "work.0x10", "work.", "..", ".cold", ".part.0"}) {
        CHECK(demangle(symbol) == symbol);
    }
}

TEST_CASE("demangle: a name that would grow without end stays as it is") {
    // Each argument is a pair of the one before: twice as long each time.
    std::string symbol = "_Z1fSt4pairIiiE";
    const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (int i = 0; i < 34; ++i) symbol += "S_IS" + std::string(1, digits[static_cast<std::size_t>(i)]) + "_S" + std::string(1, digits[static_cast<std::size_t>(i)]) + "_E";
    CHECK(demangle(symbol).size() <= 4096);
    CHECK(demangle(std::string(100'000, 'a')).size() <= 4096);
}

TEST_CASE("demangle: of a name that is nothing but stubs one suffix is taken off, and of one too long none") {
    std::string stubs;
    for (int i = 0; i < 100'000; ++i) stubs += "@plt";
    CHECK(demangle(stubs) == stubs.substr(0, 4096));
    CHECK(demangle("memcpy@plt@plt") == "memcpy@plt");
    CHECK(demangle("@plt") == "@plt");
}

TEST_CASE("symbols: the function, the inlined one and their lines") {
    std::string path;
    const void* here = shop::inlined_work();
    const FileAddress address{raw(in_file(here, &path)) - 1};  // of the call, not behind it
    ModuleSymbols symbols = open_symbols(path);
    const NativePlace place = symbols.find(address);
    REQUIRE(place.functions.size() == 2);
    CHECK(place.functions[0].is_inlined);
    CHECK(place.functions[0].name == "inlined_work");
    CHECK(place.functions[0].line == shop::line_of_work);
    CHECK(place.functions[0].file.find("unit/native/symbols.cpp") != std::string::npos);
    CHECK_FALSE(place.functions[1].is_inlined);
    CHECK(place.has_name);
    CHECK(raw(place.function_start) <= raw(address));
}

TEST_CASE("symbols: a library's exported functions, wherever in them") {
    std::string path;
    void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);  // a sanitizer puts a qsort of its own before this one
    REQUIRE(libc != nullptr);
    const void* qsort_address = ::dlsym(libc, "qsort");
    REQUIRE(qsort_address != nullptr);
    const FileAddress start = in_file(qsort_address, &path);
    ModuleSymbols symbols = open_symbols(path);
    CHECK(symbols.find(start).functions.back().name == "qsort");
    CHECK(symbols.find(FileAddress{raw(start) + 4}).functions.back().name == "qsort");
    CHECK(symbols.name().find("libc") == 0);
}

TEST_CASE("symbols: an address that no symbol covers gets the module's name, never a neighbour's") {
    ModuleSymbols symbols = open_symbols("/proc/self/exe");  // linkers leave functions they dropped at 0
    const NativePlace place = symbols.find(FileAddress{0});
    CHECK_FALSE(place.has_name);
    CHECK(place.functions.back().name.find("exe+0x") == 0);
    ModuleSymbols nothing(std::nullopt, "/gone/libx.so.1", "libx.so.1", {});
    CHECK(nothing.find(FileAddress{0x1234}).functions.back().name == "libx.so.1+0x1234");
}

TEST_CASE("symbols: a module's name is bounded and can't move a cursor") {
    CHECK(module_name("/usr/lib/libz.so.1") == "libz.so.1");
    CHECK(module_name("/x/\x1b[31m.so") == "\\x1b[31m.so");
    CHECK(module_name("/" + std::string(5000, 'y')).size() == 128);
}

TEST_CASE("jit names: the last line for an address counts, halves don't") {
    JitNames names;
    names.add_perf_map("1000 20 first\n1000 20 second one\n2000 10 py::f:/a.py\nzz 1 x\n3000 0 empty\n4000 10 cut");
    CHECK(names.find(Address{0x1010}) == "second one");
    CHECK(names.find(Address{0x2000}) == "py::f:/a.py");
    CHECK_FALSE(names.find(Address{0x1020}));
    CHECK_FALSE(names.find(Address{0x3000}));
    CHECK_FALSE(names.find(Address{0x4000}));
    names.add_perf_map("1000 8 third\n");
    CHECK(names.find(Address{0x1004}) == "third");
}

TEST_CASE("jit names: memory that is used again has its new name, and the old one beside it") {
    JitNames names;
    names.add_perf_map("1000 1000 old\nf00 900 new\n");
    CHECK(names.find(Address{0xf00}) == "new");
    CHECK(names.find(Address{0x1100}) == "new");
    CHECK(names.find(Address{0x1800}) == "old");
    names.add_perf_map("1800 10 short\n");
    CHECK(names.find(Address{0x180f}) == "short");
    CHECK(names.find(Address{0x1810}) == "old");
    names.add_perf_map("1900 10 hole\n");
    CHECK(names.find(Address{0x18ff}) == "old");
    CHECK(names.find(Address{0x190f}) == "hole");
    CHECK(names.find(Address{0x1fff}) == "old");
    CHECK_FALSE(names.find(Address{0x2000}));
}

TEST_CASE("jit names: whatever overlaps, the last range that holds an address names it") {
    JitNames names;
    std::array<int, 256> last{};
    last.fill(-1);
    std::uint32_t random = 1;
    const auto next = [&](std::uint32_t limit) { return (random = random * 1664525 + 1013904223) / 65536 % limit; };
    for (int number = 0; number < 2000; ++number) {
        const std::uint32_t begin = next(250);
        const std::uint32_t size = 1 + next(number % 10 == 0 ? 100 : 6);
        names.add_perf_map(fmt::format("{:x} {:x} {}\n", begin, size, number));
        for (std::size_t at = begin; at < begin + size && at < last.size(); ++at) last[at] = number;
        for (std::size_t at = 0; at < last.size(); ++at) {
            const auto found = names.find(Address{at});
            if (found.value_or("-1") != std::to_string(last[at])) FAIL("after range " << number << " at " << at);
        }
    }
}

TEST_CASE("machinery: calls are hidden, what explains time is not") {
    CHECK(role_of_function("_PyEval_EvalFrameDefault", true) == NativeRole::kEval);
    CHECK(role_of_function("_TAIL_CALL_BINARY_OP", true) == NativeRole::kEval);
    CHECK(role_of_function("cfunction_vectorcall_FASTCALL", true) == NativeRole::kMachinery);
    CHECK(role_of_function("slot_tp_call", true) == NativeRole::kMachinery);
    CHECK(role_of_function("slot_tp_call", false) == NativeRole::kPlain);
    CHECK(role_of_function("PyObject_RichCompare", true) == NativeRole::kInterior);
    CHECK(role_of_function("clone3", false) == NativeRole::kStart);
    CHECK(role_of_function("greenlet::UserGreenlet::g_initialstub", false) == NativeRole::kStart);
    CHECK(role_of_function("main", false) == NativeRole::kPlain);
    for (const char* name : {"list_sort", "gc_collect_main", "long_mul", "take_gil", "builtin_sorted", "dict_merge"}) {
        CHECK(role_of_function(name, true) == NativeRole::kPlain);
    }
}

TEST_CASE("function starts: a table that lies about its size is cut") {
    std::vector<std::byte> table(12 + 16, std::byte{0});
    const unsigned char head[] = {1, 0x1b, 0x03, 0x3b};
    std::memcpy(table.data(), head, sizeof head);
    const std::uint32_t count = 1000;
    std::memcpy(table.data() + 8, &count, 4);
    const std::int32_t starts[] = {-0x1000, 0, 0x20, 0};
    std::memcpy(table.data() + 12, starts, sizeof starts);
    const FunctionStarts found(table, FileAddress{0x5000});
    CHECK(found.find(FileAddress{0x4500}) == FileAddress{0x4000});
    CHECK(found.find(FileAddress{0x5020}) == FileAddress{0x5020});
    CHECK_FALSE(found.find(FileAddress{0x3fff}));
}

TEST_CASE("unpack: what is packed comes back, what is cut does not") {
    const std::string text(100'000, 'q');
    std::vector<std::uint8_t> packed(200'000);
    std::size_t size = 0;
    REQUIRE(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                    packed.data(), &size, packed.size()) == LZMA_OK);
    const auto bytes = std::as_bytes(std::span(packed).first(size));
    const std::vector<char> unpacked = unpack_xz(bytes);
    CHECK(std::string(unpacked.begin(), unpacked.end()) == text);
    CHECK(unpack_xz(bytes.first(size - 1)).empty());
    CHECK(unpack_xz({}).empty());
}

}  // namespace pyprof
