// SPDX-License-Identifier: Apache-2.0
//
// Names come out of a foreign process and may be any bytes. Here they become valid UTF-8, so that no
// exporter has to ask again. It never drops a byte silently: what is not UTF-8 becomes U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pyprof {

// Length of the well-formed sequence (Unicode 15, table 3-7) that `text` begins with; 0: ill-formed.
[[nodiscard]] std::size_t sequence_length(std::string_view text);
[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Each maximal ill-formed part becomes one U+FFFD, and so does a surrogate that was encoded like a
// character (three bytes, as Python's surrogatepass writes it).
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

}  // namespace pyprof
