// SPDX-License-Identifier: Apache-2.0
//
// The version of an interpreter from names and texts, where it exports no Py_Version. Pure functions: a
// name is evidence, not proof.
#pragma once

#include <cstdint>
#include <string_view>

namespace pyprof {

// PY_VERSION_HEX with the bits below the minor 0, from "libpython3.9.so.1.0", "python3.8",
// "python2.7"; 0 when the last part of the path says nothing.
std::uint32_t version_of_file_name(std::string_view path);
// From ".../lib/python3.8/lib-dynload/_json.so"; 0 when no directory says it.
std::uint32_t version_of_library_path(std::string_view path);
// From a text as Py_GetVersion returns it, "3.9.18 (main, ...", somewhere in `bytes`; 0 when there is
// none. Micro and level are filled in.
std::uint32_t version_in_bytes(std::string_view bytes);

}  // namespace pyprof
