// SPDX-License-Identifier: Apache-2.0
//
// From an address in a process to a name. The process is this very one, whose own linker says what stands where.
#include "sample/native_names.h"
#include "target/live_target.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <unistd.h>

using namespace pyprof;

namespace {

ResolvedProfile::Frame frame_of(const void* code) {
    auto target = open_live_target(::getpid());
    REQUIRE(target);
    ModuleMap modules(**target);
    modules.refresh();
    NativeAddresses addresses(::getpid(), {});
    NativeFrame frame;
    frame.pc = Address{reinterpret_cast<std::uint64_t>(code)};
    frame.module = modules.find(frame.pc);
    const std::uint32_t id = addresses.note(frame, false, modules, (*target)->memory());
    REQUIRE(id != 0);
    std::vector<ResolvedProfile::Frame> frames;
    addresses.name_run(std::span(&id, 1), {true, true}, frames);
    REQUIRE(frames.size() == 1);
    return frames.front();
}

}  // namespace

TEST_CASE("native names: functions of the vdso, which is no file, are read from memory") {
    void* vdso = ::dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const void* function = vdso == nullptr ? nullptr : ::dlsym(vdso, "__vdso_clock_gettime");
    if (function == nullptr) {
        WARN("skipped: no vdso with this function is mapped here");
        return;
    }
    const ResolvedProfile::Frame frame = frame_of(function);
    CHECK(frame.kind == FrameKind::kNative);
    CHECK(frame.name == "__vdso_clock_gettime");
    CHECK(frame.module == "[vdso]");
}
