// SPDX-License-Identifier: Apache-2.0
//
// Colour by module. The class of a frame depends on its file (or library) and name alone, so that the same module looks the same
// in every run; the colours of the classes stand in the style sheet.
#pragma once

#include <pyprof/profile.h>

#include <string>
#include <string_view>

namespace pyprof {

// "o3": the program's own file in shade 3; "p" a package, "s" the standard library; "n" native code, by the library
// that it is in; "m" alone a marker. " b" or " c" behind it is a paler tone, which tells functions of one module apart.
std::string colour_class(const ResolvedProfile::Frame& frame, std::string_view working_directory);

}  // namespace pyprof
