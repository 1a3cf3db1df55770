// SPDX-License-Identifier: Apache-2.0
//
// Files of this very process: what the ELF reader says must agree with where things are, and with readelf.
#include "elf/elf_module.h"

#include "elf/load_bias.h"
#include "elf/memory_module.h"
#include "own_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace pyprof;
using namespace pyprof::test;

extern "C" {
// Named in C so that its symbol is its name; initialised so that it lies in the file.
extern int pyprof_test_landmark;
int pyprof_test_landmark = 77;
}

namespace {

std::unique_ptr<ModuleFile> open_file(const std::string& path) {
    auto module = open_elf_module(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
    REQUIRE(module);
    return std::move(*module);
}

std::string build_id_by_readelf(const std::string& path) {
    const std::string text = output_of("readelf -n '" + path + "' 2>/dev/null");
    constexpr std::string_view kMark = "Build ID: ";
    const std::size_t at = text.find(kMark);
    if (at == std::string::npos) return {};
    return text.substr(at + kMark.size(), text.find_first_of(" \n", at + kMark.size()) - at - kMark.size());
}

}  // namespace

TEST_CASE("elf: a symbol of this program lies where the program has it") {
    const std::string path = std::filesystem::read_symlink("/proc/self/exe");
    const auto module = open_file(path);
    const auto bias = load_bias(own_mappings(path), module->load_segments());
    REQUIRE(bias);
    const auto symbol = module->find_symbol("pyprof_test_landmark");
    REQUIRE(symbol);
    CHECK(symbol->size == sizeof(int));
    CHECK(bias->in_memory(symbol->address) == address_of(&pyprof_test_landmark));
    CHECK(bias->in_file(address_of(&pyprof_test_landmark)) == symbol->address);
    OwnMemory memory;
    CHECK(read_value<int>(memory, bias->in_memory(symbol->address)) == 77);

    const auto data = module->find_section(".data");
    REQUIRE(data);
    CHECK(is_within(address_of(&pyprof_test_landmark), bias->in_memory(data->address),
                    bias->in_memory(data->address) + data->size));
    CHECK_FALSE(module->find_section(".debug_info"));  // not loaded
    CHECK_FALSE(module->find_section(".no_such_section"));
    CHECK_FALSE(module->find_symbol("puts_no_such_symbol"));
    CHECK_FALSE(module->find_symbol("qsort"));  // undefined here
}

TEST_CASE("elf: a library's symbols lie where the loader says, from the file and from memory") {
    const auto mappings = own_mappings("/libc.so.6");
    const auto file = open_file(mappings.front().path);
    const auto bias = load_bias(mappings, file->load_segments());
    REQUIRE(bias);
    OwnMemory memory;
    REQUIRE(mappings.front().file_offset == 0);
    const auto loaded = open_memory_module(memory, mappings.front().start, "libc");
    REQUIRE(loaded);
    const auto loaded_bias = load_bias(mappings, (*loaded)->load_segments());
    CHECK(loaded_bias == bias);
    // From that library alone: a sanitizer puts functions of its own before some of these.
    void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    REQUIRE(libc != nullptr);
    for (const char* name : {"qsort", "getenv", "fopen", "environ"}) {
        INFO(name);
        const Address truth = address_of(::dlsym(libc, name));
        const auto in_file = file->find_symbol(name);
        REQUIRE(in_file);
        CHECK(bias->in_memory(in_file->address) == truth);
        const auto in_memory = (*loaded)->find_symbol(name);
        REQUIRE(in_memory);
        CHECK(bias->in_memory(in_memory->address) == truth);
        CHECK(in_memory->size == in_file->size);
    }
    CHECK_FALSE((*loaded)->find_symbol("no_such_symbol"));
    CHECK_FALSE((*loaded)->find_section(".text"));
}

TEST_CASE("elf: the build-id is the one that readelf prints") {
    const auto mappings = own_mappings("/libc.so.6");
    const std::string truth = build_id_by_readelf(mappings.front().path);
    if (truth.empty()) {
        WARN("skipped: no readelf, or no build-id in libc");
        return;
    }
    CHECK(open_file(mappings.front().path)->build_id() == truth);
    OwnMemory memory;
    CHECK((*open_memory_module(memory, mappings.front().start, "libc"))->build_id() == truth);
}

TEST_CASE("elf: other files and truncated ones are refused or empty, never more") {
    CHECK_FALSE(open_elf_module(UniqueFd(::open("/etc/passwd", O_RDONLY | O_CLOEXEC)), "/etc/passwd"));
    CHECK_FALSE(open_elf_module(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), "/dev/null"));
    CHECK_FALSE(open_elf_module(UniqueFd(), "closed"));

    std::ifstream in("/proc/self/exe", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::string path = (std::filesystem::temp_directory_path() / "pyprof-truncated").string();
    for (const std::size_t size : {1UL, 4UL, 16UL, 63UL, 64UL, 100UL, 500UL, 1000UL, 4096UL, 65536UL, bytes.size() * 3 / 4}) {
        std::ofstream(path, std::ios::binary) << bytes.substr(0, size);
        auto module = open_elf_module(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
        if (!module) continue;
        CHECK_FALSE((*module)->find_symbol("pyprof_test_landmark"));
        CHECK((*module)->load_segments().size() < 100);
        CHECK((*module)->build_id().size() <= 128);
    }
    std::filesystem::remove(path);
}

TEST_CASE("elf: memory that holds no ELF file is refused") {
    OwnMemory memory;
    CHECK_FALSE(open_memory_module(memory, kNullAddress, "nothing"));
    CHECK_FALSE(open_memory_module(memory, address_of(&pyprof_test_landmark), "a variable"));
}
