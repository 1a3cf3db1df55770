// SPDX-License-Identifier: Apache-2.0
//
// A hostile ELF file that is asked for names: its symbols, the table of .eh_frame_hdr, its debug link, its build-id,
// the entries of its PLT and its lines. Half of the inputs are the bytes of an .eh_frame_hdr alone.
//
//   u8 kind (0: a file, 1: an .eh_frame_hdr) | bytes
#include "native/function_starts.h"
#include "native/module_symbols.h"

#include <pyprof/error.h>

#include <cstdint>

namespace {

using namespace pyprof;

constexpr std::uint64_t kAsked[] = {0, 1, 0x40, 0x1000, 0x1004, 0x2000, 0x401000, ~std::uint64_t{0}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
    if (data[0] % 2 == 1) {
        const FunctionStarts starts(bytes, FileAddress{0x1000});
        for (const std::uint64_t address : kAsked) {
            const auto start = starts.find(FileAddress{address});
            check(!start || raw(*start) <= address, "a function that starts behind its address");
        }
        return 0;
    }
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    // No debug file is found below a root that is not there.
    const DebugSearch nowhere{{"/nonexistent"}, {}};
    ModuleSymbols symbols(ElfImage::open(std::vector<char>(text, text + bytes.size())), "/x/fuzz.so", "fuzz.so", nowhere);
    for (const std::uint64_t address : kAsked) {
        const NativePlace place = symbols.find(FileAddress{address});
        check(!place.functions.empty(), "a place without a function");
        for (const NativeFunction& function : place.functions) check(!function.name.empty(), "a function without a name");
    }
    return 0;
}
