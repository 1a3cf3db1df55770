// SPDX-License-Identifier: Apache-2.0
//
// .gnu_debugdata: an ELF file with a .symtab, packed with xz. Bounded in what it may become.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pyprof {

// Empty when the bytes are not xz, are cut off, or would become more than 256 MB.
std::vector<char> unpack_xz(std::span<const std::byte> packed);

}  // namespace pyprof
