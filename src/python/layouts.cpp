// SPDX-License-Identifier: Apache-2.0
//
// Which of the two sources describes a target: a row of the table or its own debug offsets. Also what
// PY_VERSION_HEX says and how a version is written.
#include "python/layouts.h"

#include "python/debug_offsets.h"

#include <fmt/format.h>

namespace pyprof {

PythonVersion version_from_hex(std::uint32_t hex) {
    return {static_cast<int>(hex >> 24U), static_cast<int>(hex >> 16U & 0xffU),
            static_cast<int>(hex >> 8U & 0xffU), hex};
}

std::string to_string(const PythonVersion& version) {
    std::string text = fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
    const unsigned serial = version.hex & 0xfU;
    switch (version.hex >> 4U & 0xfU) {
        case 0xa:
            return text + fmt::format("a{}", serial);
        case 0xb:
            return text + fmt::format("b{}", serial);
        case 0xc:
            return text + fmt::format("rc{}", serial);
        default:
            return text;
    }
}

Result<Layout> layout_for(const PythonVersion& version, std::span<const std::byte> runtime) {
    if (has_debug_offsets(runtime)) return layout_from_debug_offsets(runtime);
    if (const Layout* row = layout_of(version.major, version.minor)) {
        Layout layout = *row;
        layout.version = version;
        return layout;
    }
    if (DebugOffsets::is_known(version.major, version.minor)) {
        return fail(
            ExitCode::kFailure,
            fmt::format("Python {} does not describe its layout (no debug offsets)", to_string(version)),
            "they stand at the start of _PyRuntime; is the process still starting?");
    }
    return fail(ExitCode::kNotPython, fmt::format("Python {} is not supported", to_string(version)),
                kSupportedVersions);
}

}  // namespace pyprof
