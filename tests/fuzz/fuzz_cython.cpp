// SPDX-License-Identifier: Apache-2.0
//
// What a hostile target may give as Cython's: a C file with comments, or symbols of a function and of a generator's body.
//
//   u8 kind (0: a C file, 1: two symbols with a zero between) | bytes
#include "native/cython_names.h"
#include "native/cython_source.h"

#include <pyprof/error.h>

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pyprof;
    if (size < 1) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 2 == 0) {
        const CythonLines lines(text);
        for (const char* function : {"__pyx_f_3mod_inner", "__pyx_pymod_exec_mod", "__Pyx_other"}) {
            for (std::int32_t line : {0, 1, 2, 3, 5, 8, 13, 21, 34, INT32_MAX}) {
                const auto place = lines.find(line, function);
                check(!place || (place->line > 0 && !place->file.empty()), "a place without a line or a file");
            }
        }
        return 0;
    }
    const std::size_t end = std::min(text.find('\0'), text.size());
    const std::string_view function = text.substr(0, end);
    const std::string_view body = text.substr(std::min(end + 1, text.size()));
    const auto name = cython_name(function);
    check(!name || !name->empty(), "an empty name");
    check(!makes_generator(function, body) || is_generator_body(body), "a generator whose body is none");
    return 0;
}
