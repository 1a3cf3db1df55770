// SPDX-License-Identifier: Apache-2.0
//
// A perf map and a jitdump as a hostile target may write them, whole and in two parts:
//
//   u8 kind (0: perf map, 1: jitdump) | u16 where the first part ends | bytes
#include "native/jit_names.h"

#include <pyprof/error.h>
#include <pyprof/memory.h>

#include <algorithm>
#include <cstdint>

namespace {

using namespace pyprof;

void ask(JitNames& names) {
    for (std::uint64_t address : {std::uint64_t{0}, std::uint64_t{0x1000}, std::uint64_t{0x7f0000001000}, ~std::uint64_t{0}}) {
        const auto name = names.find(Address{address});
        check(!name || !name->empty(), "an empty name");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const auto input = std::as_bytes(std::span(data, size));
    const auto bytes = input.subspan(3);
    const std::size_t cut = std::min<std::size_t>(load<std::uint16_t>(input.data(), 1), bytes.size());
    JitNames names;
    if (data[0] % 2 == 0) {
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        names.add_perf_map(text.substr(0, cut));
        names.add_perf_map(text.substr(cut));
    } else {
        names.add_jitdump(bytes);
        const auto taken = names.add_jitdump_records(bytes.subspan(cut));
        check(!taken || *taken <= bytes.size() - cut, "more was taken than there is");
    }
    ask(names);
    return 0;
}
