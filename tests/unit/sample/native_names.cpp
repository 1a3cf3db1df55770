// SPDX-License-Identifier: Apache-2.0
//
// From an address in a process to a name. The process is this very one, whose own linker says what stands where.
#include "sample/native_names.h"
#include "target/live_target.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <vector>

using namespace pyprof;

// Named as Cython names its functions. They are never called.
int wrapper(int x) __asm__("__pyx_pw_1m_4Shop_1work");
int wrapper(int x) { return x + 1; }
int written(int x) __asm__("__pyx_pf_1m_4Shop_work");
int written(int x) { return x + 2; }
int of_c(int x) __asm__("__pyx_f_1m_4Shop_work");
int of_c(int x) { return x + 3; }
int rest_wrapper(int x) __asm__("__pyx_pw_1m_3rest");
int rest_wrapper(int x) { return x + 4; }
int rest(int x) __asm__("__pyx_pf_1m_2rest");
int rest(int x) { return x + 5; }

namespace {

// Of code in this process; the outermost function first.
std::vector<ResolvedProfile::Frame> frames_of(const std::vector<const void*>& codes, bool show_all = false) {
    auto target = open_live_target(::getpid());
    REQUIRE(target);
    ModuleMap modules(**target);
    modules.refresh();
    NativeNamingOptions options;
    options.show_all = show_all;
    NativeAddresses addresses(::getpid(), options);
    std::vector<std::uint32_t> run;
    for (const void* code : codes) {
        NativeFrame frame;
        frame.pc = Address{reinterpret_cast<std::uint64_t>(code)};
        frame.module = modules.find(frame.pc);
        run.push_back(addresses.note(frame, false, modules, (*target)->memory()));
        REQUIRE(run.back() != 0);
    }
    std::vector<ResolvedProfile::Frame> frames;
    addresses.name_run(run, {true, true}, frames);
    return frames;
}

std::vector<std::string> names_of(const std::vector<int (*)(int)>& functions, bool show_all = false) {
    std::vector<const void*> codes;
    for (const auto function : functions) codes.push_back(reinterpret_cast<const void*>(function));
    std::vector<std::string> names;
    for (const ResolvedProfile::Frame& frame : frames_of(codes, show_all)) names.push_back(frame.name);
    return names;
}

}  // namespace

TEST_CASE("native names: functions of the vdso, which is no file, are read from memory") {
    void* vdso = ::dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const void* function = vdso == nullptr ? nullptr : ::dlsym(vdso, "__vdso_clock_gettime");
    if (function == nullptr) {
        WARN("skipped: no vdso with this function is mapped here");
        return;
    }
    const auto frames = frames_of({function});
    REQUIRE(frames.size() == 1);
    const ResolvedProfile::Frame& frame = frames.front();
    CHECK(frame.kind == FrameKind::kNative);
    CHECK(frame.name == "__vdso_clock_gettime");
    CHECK(frame.module == "[vdso]");
}

TEST_CASE("native names: what Cython makes of one function is one frame, and each call of it has one") {
    using Names = std::vector<std::string>;
    CHECK(names_of({wrapper, written}) == Names{"Shop.work"});
    CHECK(names_of({wrapper, written, of_c, rest_wrapper, rest}) == Names{"Shop.work", "rest"});
    CHECK(names_of({wrapper, written, wrapper, written}) == Names{"Shop.work", "Shop.work"});
    CHECK(names_of({of_c, of_c}) == Names{"Shop.work", "Shop.work"});
    CHECK(names_of({wrapper, rest}) == Names{"Shop.work", "rest"});
    CHECK(names_of({wrapper}) == Names{"Shop.work"});
    CHECK(names_of({rest_wrapper, rest}, true) == Names{"rest", "rest"});
}
