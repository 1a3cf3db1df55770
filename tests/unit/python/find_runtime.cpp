// SPDX-License-Identifier: Apache-2.0
//
// Every way to find _PyRuntime, on processes that are made up: files with symbols and sections, and
// memory that holds what CPython would have there.
#include "python/find_runtime.h"

#include "target/snapshot_target.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace pyprof;

namespace {

constexpr std::uint64_t kText = 0x1000;    // size of a module's text mapping
constexpr std::uint64_t kDataAt = 0x2000;  // from its start
constexpr std::uint64_t kDataSize = 0x3000;
constexpr std::uint64_t kHeap = 0x700000;  // where interpreters stand

class FakeProcess {
public:
    explicit FakeProcess(const std::string& executable) {
        snapshot_.pid = 99;
        snapshot_.facts = {99, {executable}, executable, "/"};
        add_mapping(kHeap, 0x2000, 0, 0, "[heap]", true);
        fill(kHeap, 0x2000);
    }

    // A file with a text and a data mapping; its data is all zero.
    ModuleAnswers& add_module(std::uint64_t base, const std::string& path) {
        ModuleAnswers module;
        module.mapping = add_mapping(base, kText, 0, base, path, false);
        add_mapping(base + kDataAt, kDataSize, kText, base, path, true);
        fill(base, kText);
        fill(base + kDataAt, kDataSize);
        module.segments = {{FileAddress{0}, 0, kText, kText, false},
                           {FileAddress{kDataAt}, kText, kDataSize, kDataSize, true}};
        snapshot_.modules.push_back(module);
        return snapshot_.modules.back();
    }
    // A file that is mapped but can't be opened and has no data of its own.
    void add_other_file(std::uint64_t base, const std::string& path) {
        add_mapping(base, kText, 0, base, path, false);
    }

    void put(std::uint64_t at, std::uint64_t value) {
        REQUIRE(snapshot_.memory.add(Address{at}, std::as_bytes(std::span(&value, 1))));
    }
    void put_text(std::uint64_t at, std::string_view text) {
        REQUIRE(snapshot_.memory.add(Address{at}, std::as_bytes(std::span(text))));
    }
    // The start of _Py_DebugOffsets: cookie, version, free_threaded, size, finalizing, interpreters_head.
    void put_debug_offsets(std::uint64_t at, std::uint64_t version) {
        put_text(at, "xdebugpy");
        put(at + 8, version);
        put(at + 40, 632);
        put(at + 632, kHeap);
    }

    SnapshotTarget make() { return SnapshotTarget(std::move(snapshot_)); }

private:
    Mapping add_mapping(std::uint64_t start, std::uint64_t size, std::uint64_t offset, std::uint64_t inode,
                        const std::string& path, bool is_data) {
        Mapping mapping;
        mapping.start = Address{start};
        mapping.end = Address{start + size};
        mapping.file_offset = offset;
        mapping.inode = inode;
        mapping.readable = true;
        mapping.writable = is_data;
        mapping.executable = !is_data;
        mapping.path = path;
        snapshot_.mappings.push_back(mapping);
        std::sort(snapshot_.mappings.begin(), snapshot_.mappings.end(),
                  [](const Mapping& a, const Mapping& b) { return raw(a.start) < raw(b.start); });
        return mapping;
    }
    void fill(std::uint64_t at, std::uint64_t size) {
        REQUIRE(snapshot_.memory.add(Address{at}, std::vector<std::byte>(size)));
    }

    Snapshot snapshot_;
};

constexpr std::uint64_t kExe = 0x400000;
constexpr std::uint64_t kLib = 0x500000;
constexpr std::uint64_t kRuntimeAt = kDataAt + 0x800;

ModuleFile::Section place(std::uint64_t address) {
    return {FileAddress{address}, 64};
}

}  // namespace

TEST_CASE("find runtime: by symbol, with the version that Py_Version holds") {
    FakeProcess process("/usr/bin/python3.11");
    auto& module = process.add_module(kExe, "/usr/bin/python3.11");
    module.symbols["_PyRuntime"] = place(kRuntimeAt);
    module.symbols["Py_Version"] = place(0x10);
    process.put(kExe + 0x10, 0x030b07f0);
    process.put(kExe + kRuntimeAt + 40, kHeap);
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK(found->runtime == Address{kExe + kRuntimeAt});
    CHECK(found->version_hex == 0x030b07f0);
    CHECK(found->is_initialised);
    CHECK_FALSE(found->has_debug_offsets);
    CHECK(found->how == "symbol _PyRuntime");
    CHECK(found->version_how == "Py_Version");
    CHECK(found->module_path == "/usr/bin/python3.11");
}

TEST_CASE("find runtime: by section where symbols are stripped, with the version of the debug offsets") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo").sections[".PyRuntime"] = place(kRuntimeAt);
    process.put_debug_offsets(kExe + kRuntimeAt, 0x030e0af0);
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK(found->runtime == Address{kExe + kRuntimeAt});
    CHECK(found->version_hex == 0x030e0af0);
    CHECK(found->has_debug_offsets);
    CHECK(found->is_initialised);
    CHECK(found->how == "section .PyRuntime");
}

TEST_CASE("find runtime: in a library of an embedding program") {
    FakeProcess process("/opt/server");
    process.add_module(kExe, "/opt/server");
    process.add_module(kLib, "/usr/lib/libpython3.12.so.1.0").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.put(kLib + kRuntimeAt + 40, kHeap);
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK(found->version_hex == 0x030c0000);
    CHECK(found->version_how == "the name of the file");
    CHECK(found->module_path == "/usr/lib/libpython3.12.so.1.0");
}

TEST_CASE("find runtime: in any other file that has one") {
    FakeProcess process("/opt/server");
    process.add_module(kExe, "/opt/server");
    process.add_module(kLib, "/opt/plugin.so").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.put_debug_offsets(kLib + kRuntimeAt, 0x030d00f0);
    auto target = process.make();
    CHECK(find_runtime(target)->module_path == "/opt/plugin.so");
}

TEST_CASE("find runtime: the one that is in use is taken, not one that lies idle") {
    FakeProcess process("/usr/bin/python3.9");
    process.add_module(kExe, "/usr/bin/python3.9").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.add_module(kLib, "/usr/lib/libpython3.9.so.1.0").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.put(kLib + kRuntimeAt + 32, kHeap);
    auto target = process.make();
    CHECK(find_runtime(target)->module_path == "/usr/lib/libpython3.9.so.1.0");
}

TEST_CASE("find runtime: one that is not set up yet is reported as such") {
    FakeProcess process("/usr/bin/python3.9");
    process.add_module(kExe, "/usr/bin/python3.9").symbols["_PyRuntime"] = place(kRuntimeAt);
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK_FALSE(found->is_initialised);
    CHECK(found->version_hex == 0x03090000);
}

TEST_CASE("find runtime: the version from the text of Py_GetVersion, whatever the file is called") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.put(kExe + kRuntimeAt + 32, kHeap);
    process.put_text(kExe + kDataAt + 0x101, "3.9.18 (main, Aug 25 2023, 13:20:04) \n[GCC 12.2.0]");
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK(found->version_hex == 0x030912f0);
    CHECK(found->is_initialised);
}

TEST_CASE("find runtime: the version from the path of its modules") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.add_other_file(kLib, "/usr/lib/python3.8/lib-dynload/_json.cpython-38-x86_64-linux-gnu.so");
    process.put(kExe + kRuntimeAt + 32, kHeap);
    auto target = process.make();
    CHECK(find_runtime(target)->version_hex == 0x03080000);
    CHECK(find_runtime(target)->version_how == "the path of its modules");
}

TEST_CASE("find runtime: a symbol of 3.13 or later without the cookie is not believed") {
    FakeProcess process("/usr/bin/python3.13");
    process.add_module(kExe, "/usr/bin/python3.13").symbols["_PyRuntime"] = place(kRuntimeAt);
    process.put(kExe + kRuntimeAt + 632, kHeap);
    auto target = process.make();
    CHECK_FALSE(find_runtime(target));
}

TEST_CASE("find runtime: by the cookie in data, but not where it stands by chance") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo");
    process.put_text(kExe + kDataAt + 0x10, "xdebugpy");
    process.put(kExe + kDataAt + 0x18, 0xffffffffffffffff);
    process.put_text(kExe + kDataAt + 0x1004, "xdebugpy");  // not aligned
    process.put_debug_offsets(kExe + kDataAt + 0x2000, 0x030f02f0);
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE(found);
    CHECK(found->runtime == Address{kExe + kDataAt + 0x2000});
    CHECK(found->how == "cookie in its data");
    FindOptions no_scan;
    no_scan.may_scan = false;
    CHECK_FALSE(find_runtime(target, no_scan));
}

TEST_CASE("find runtime: by shape below 3.13, confirmed by the probe") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo");
    constexpr std::uint64_t kRuntime = kExe + kDataAt + 0x1000;
    // Two interpreters, the newer one first.
    process.put(kRuntime + 32, kHeap + 0x400);
    process.put(kRuntime + 40, kHeap);
    process.put(kHeap + 0x400, kHeap);
    // Other pairs of pointers: to itself, and to a list that has no end.
    process.put(kExe + kDataAt + 0x20, kHeap + 0x800);
    process.put(kExe + kDataAt + 0x28, kHeap + 0x808);
    process.put(kHeap + 0x800, kHeap + 0x800);
    auto target = process.make();
    int probes = 0;
    FindOptions options;
    options.probe = [&](Address runtime, int minor) {
        ++probes;
        return minor == 10 && runtime == Address{kRuntime};
    };
    const auto found = find_runtime(target, options);
    REQUIRE(found);
    CHECK(found->runtime == Address{kRuntime});
    CHECK(found->version_hex == 0x030a0000);
    CHECK(found->how == "scan of its data");
    CHECK(probes < 20);

    options.probe = [](Address, int) { return false; };
    CHECK_FALSE(find_runtime(target, options));
    CHECK_FALSE(find_runtime(target));
}

TEST_CASE("find runtime: a scan passes over pages that can't be read") {
    FakeProcess process("/opt/foo");
    process.add_module(kExe, "/opt/foo");
    process.put_debug_offsets(kExe + kDataAt + 0x2000, 0x030f02f0);
    auto target = process.make();
    FaultPlan plan;
    plan.gaps = {{Address{kExe + kDataAt}, Address{kExe + kDataAt + 0x1000}}};
    target.inject(plan);
    CHECK(find_runtime(target)->runtime == Address{kExe + kDataAt + 0x2000});
}

TEST_CASE("find runtime: what is not Python is named") {
    FakeProcess process("/usr/bin/sleep");
    process.add_module(kExe, "/usr/bin/sleep");
    auto target = process.make();
    const auto found = find_runtime(target);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ExitCode::kNotPython);
    CHECK(found.error().message == "process 99 (/usr/bin/sleep) is not a Python process");
}

TEST_CASE("find runtime: old versions and other implementations are named") {
    FakeProcess old("/usr/bin/python2.7");
    old.add_module(kExe, "/usr/bin/python2.7");
    auto old_target = old.make();
    CHECK(find_runtime(old_target).error().message ==
          "process 99 runs Python 2.7, which is older than pyprof reads");
    FakeProcess pypy("/opt/pypy3.10/bin/pypy3");
    pypy.add_module(kExe, "/opt/pypy3.10/bin/pypy3");
    auto pypy_target = pypy.make();
    CHECK(find_runtime(pypy_target).error().hint.find("PyPy") != std::string::npos);
}

TEST_CASE("find runtime: a process without memory or files is an error, not a crash") {
    SnapshotTarget target{Snapshot{}};
    CHECK(find_runtime(target).error().code == ExitCode::kNotPython);
}
