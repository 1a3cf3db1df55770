// SPDX-License-Identifier: Apache-2.0
//
// Names come out of a foreign process and may be any bytes. Here they become valid UTF-8, so that no
// exporter has to ask again. It never drops a byte silently: what is not UTF-8 becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace pyprof {

[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Each byte that belongs to no well-formed sequence becomes one U+FFFD; so does, as a whole, a surrogate
// that was encoded like a character (three bytes, as Python's surrogatepass writes it).
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

}  // namespace pyprof
