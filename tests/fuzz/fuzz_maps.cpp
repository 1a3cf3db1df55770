// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/maps with any text in it.
#include "target/proc_parse.h"

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const pyprof::Mapping& mapping : pyprof::parse_maps(text)) {
        pyprof::check(raw(mapping.start) <= raw(mapping.end), "a mapping ends before its start");
        pyprof::check(mapping.path.size() <= size, "a path is longer than its text");
    }
    return 0;
}
