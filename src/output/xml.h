// SPDX-License-Identifier: Apache-2.0
//
// Text fit for XML 1.0, between tags and in double-quoted attributes.
#pragma once

#include <string>
#include <string_view>

namespace pyprof {

// Makes control bytes visible (XML 1.0 has no way to write them), replaces the two code points that XML
// forbids besides, and escapes markup.
std::string xml_text(std::string_view text);

}  // namespace pyprof
