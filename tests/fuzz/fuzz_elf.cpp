// SPDX-License-Identifier: Apache-2.0
//
// A hostile ELF file, once as a file and once as the memory of a process.
#include "elf/elf_module.h"
#include "elf/load_bias.h"
#include "elf/memory_module.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using namespace pyprof;

constexpr std::uint64_t kBase = 0x10000;

// The input at kBase and nothing else.
class InputMemory final : public Memory {
public:
    explicit InputMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
    ReadOutcome read(std::span<const ReadRange> ranges) override {
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            const std::uint64_t at = raw(ranges[i].from) - kBase;
            if (at > bytes_.size() || ranges[i].to.size() > bytes_.size() - at)
                return {i, ReadFault::kUnmapped};
            std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), ranges[i].to.size(),
                        ranges[i].to.begin());
        }
        return {ranges.size(), ReadFault::kNone};
    }

private:
    std::span<const std::byte> bytes_;
};

void ask(ModuleFile& module) {
    Mapping mapping;
    mapping.start = Address{kBase};
    mapping.end = Address{kBase + 0x10000};
    for (const char* name : {"_PyRuntime", "Py_Version", ""}) {
        static_cast<void>(module.find_symbol(name));
        static_cast<void>(module.find_section(name));
    }
    static_cast<void>(load_bias({&mapping, 1}, module.load_segments()));
    check(module.build_id().size() <= 128 << 10, "a build-id is too long");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    UniqueFd file(::memfd_create("elf", MFD_CLOEXEC));
    if (file && ::write(file.get(), data, size) == static_cast<ssize_t>(size)) {
        if (auto module = open_elf_module(std::move(file), "input")) ask(**module);
    }
    InputMemory memory(std::as_bytes(std::span(data, size)));
    if (auto module = open_memory_module(memory, Address{kBase}, "input")) ask(**module);
    return 0;
}
