// SPDX-License-Identifier: Apache-2.0
//
// Chooses the Layout of a target. Up to 3.12 it is one row of a table; from 3.13 on the target's own
// _Py_DebugOffsets say it, and are believed only after every field has been checked. This is the one
// place where versions are compared, and an unknown version is an Error, never a guess.
#pragma once

#include <pyprof/error.h>
#include <pyprof/layout.h>

#include <cstddef>
#include <span>

namespace pyprof {

// For the hint of an error about a version.
constexpr const char* kSupportedVersions = "supported are CPython 3.8 to 3.15, no alpha or beta releases";

// Whether it is that error. Its exit code is that of "not Python", but waiting can't help.
inline bool is_unsupported_version(const Error& error) { return error.hint == kSupportedVersions; }

// As many bytes of _PyRuntime as the largest _Py_DebugOffsets with room to spare.
constexpr std::size_t kDebugOffsetsBytes = 1024;

// The row of a release build of 3.8 to 3.12, which no debug offsets describe; nullptr for any other.
[[nodiscard]] const Layout* layout_of(int major, int minor);

// From the start of _PyRuntime of 3.13 to 3.15, GIL or free-threaded, release or debug. `runtime` may be
// shorter than kDebugOffsetsBytes where less can be read, as long as the version's own fields are there.
[[nodiscard]] Result<Layout> layout_from_debug_offsets(std::span<const std::byte> runtime);

// True when the bytes begin with the cookie of _Py_DebugOffsets.
[[nodiscard]] bool has_debug_offsets(std::span<const std::byte> runtime);

// Either of the two: `runtime` is the start of _PyRuntime, `version` what the file or its name told
// (used where there are no debug offsets; otherwise those tell the version).
[[nodiscard]] Result<Layout> layout_for(const PythonVersion& version, std::span<const std::byte> runtime);

// PY_VERSION_HEX taken apart.
[[nodiscard]] PythonVersion version_from_hex(std::uint32_t hex);

}  // namespace pyprof
