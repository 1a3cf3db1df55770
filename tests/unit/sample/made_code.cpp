// SPDX-License-Identifier: Apache-2.0
//
// Names of code that a program makes, from files as perf(1) reads them. The program is this very one.
#include "sample/made_code.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <fstream>

namespace pyprof {
namespace {

void put(std::string& bytes, std::uint64_t value, std::size_t size) {
    bytes.append(reinterpret_cast<const char*>(&value), size);
}

// A jitdump as tools/perf/Documentation/jitdump-specification.txt has it.
std::string header() {
    std::string bytes;
    put(bytes, 0x4A695444, 4);
    put(bytes, 1, 4);   // version
    put(bytes, 40, 4);  // size
    put(bytes, 62, 4);  // EM_X86_64
    put(bytes, 0, 4);
    put(bytes, static_cast<std::uint64_t>(::getpid()), 4);
    put(bytes, 1, 8);  // time
    put(bytes, 0, 8);  // flags
    return bytes;
}

std::string code_load(std::uint64_t address, const std::string& name, std::size_t size) {
    std::string bytes;
    put(bytes, 0, 4);
    put(bytes, 56 + name.size() + 1 + size, 4);
    put(bytes, 2, 8);
    put(bytes, static_cast<std::uint64_t>(::getpid()), 4);
    put(bytes, static_cast<std::uint64_t>(::getpid()), 4);
    put(bytes, address, 8);
    put(bytes, address, 8);
    put(bytes, size, 8);
    put(bytes, 7, 8);
    bytes.append(name.c_str(), name.size() + 1);
    bytes.append(size, '\x90');
    return bytes;
}

std::string close_record() {
    std::string bytes;
    put(bytes, 3, 4);
    put(bytes, 16, 4);
    put(bytes, 9, 8);
    return bytes;
}

struct File {
    explicit File(std::string path_) : path(std::move(path_)) {}
    ~File() { ::unlink(path.c_str()); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    void append(const std::string& bytes) const { std::ofstream(path, std::ios::app | std::ios::binary) << bytes; }
    std::string path;
};

std::string text(std::optional<std::string_view> name) { return name ? std::string(*name) : "-"; }

}  // namespace

TEST_CASE("made code: a mapped jitdump is known by its name") {
    CHECK(MadeCode::is_jitdump("/tmp/jit-123.dump"));
    CHECK(MadeCode::is_jitdump("jit-1.dump"));
    for (const char* other : {"/tmp/jit-.dump", "/tmp/jit-12x.dump", "/tmp/xjit-12.dump", "/tmp/jit-12.dump2", "/tmp/perf-12.map", ""}) {
        CHECK_FALSE(MadeCode::is_jitdump(other));
    }
}

TEST_CASE("made code: a jitdump is read on where it has grown, whole records alone") {
    const File file("/tmp/jit-" + std::to_string(::getpid()) + ".dump");
    MadeCode code(::getpid());
    code.note_jitdump(file.path);
    file.append(header().substr(0, 20));
    CHECK(text(code.find(Address{0x1000})) == "-");
    file.append(header().substr(20) + code_load(0x1000, "first", 32));
    CHECK(text(code.find(Address{0x1010})) == "first");
    CHECK(text(code.find(Address{0x1020})) == "-");
    const std::string second = code_load(0x2000, "second function", 16);
    file.append(close_record() + second.substr(0, 70));
    CHECK(text(code.find(Address{0x2000})) == "-");
    file.append(second.substr(70) + code_load(0x1000, "first anew", 32));
    CHECK(text(code.find(Address{0x2008})) == "second function");
    CHECK(text(code.find(Address{0x1010})) == "first anew");
}

TEST_CASE("made code: a jitdump that makes no sense names nothing and ends nothing") {
    const File file("/tmp/jit-" + std::to_string(::getpid()) + ".dump");
    std::string record = code_load(0x1000, "first", 32);
    std::string broken = code_load(0x3000, "broken", 32);
    broken[4] = 1;  // shorter than its own head
    std::memset(broken.data() + 5, 0, 3);
    file.append(header() + record + broken + code_load(0x4000, "behind", 32));
    MadeCode code(::getpid());
    code.note_jitdump(file.path);
    CHECK(text(code.find(Address{0x3000})) == "-");
    CHECK(text(code.find(Address{0x4000})) == "-");
    const File other("/tmp/jit-1.dump");
    other.append(std::string(5000, 'x'));
    code.note_jitdump(other.path);
    code.note_jitdump("/dev/zero");
    CHECK(text(code.find(Address{0x1000})) == "first");
}

TEST_CASE("made code: a perf map is read on, and its file kept") {
    const File file("/tmp/perf-" + std::to_string(::getpid()) + ".map");
    MadeCode code(::getpid());
    CHECK(text(code.find(Address{0x1000})) == "-");
    file.append("1000 20 first\n2000 10 sec");
    CHECK(text(code.find(Address{0x1000})) == "first");
    CHECK(text(code.find(Address{0x2000})) == "-");
    file.append("ond\n");
    CHECK(text(code.find(Address{0x2000})) == "second");
    ::unlink(file.path.c_str());
    CHECK(text(code.find(Address{0x2000})) == "second");
}

}  // namespace pyprof
