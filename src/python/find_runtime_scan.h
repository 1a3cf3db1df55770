// SPDX-License-Identifier: Apache-2.0
//
// The last resorts of find_runtime: searching the target's data segments for the cookie of
// _Py_DebugOffsets, and for pointers that stand as those at the start of _PyRuntime do. Bounded in bytes
// and in candidates.
#pragma once

#include "python/find_runtime.h"
#include "python/find_runtime_module.h"

#include <functional>
#include <optional>
#include <vector>

namespace pyprof {

// Parts of a module's data: its writable mappings and the anonymous ones right behind them (.bss).
std::vector<Mapping> data_of(const LoadedModule& module, const std::vector<Mapping>& all);

// Calls `visit` with the bytes of each readable piece; it returns false to end the scan. Pieces of one
// mapping overlap by `overlap` bytes, so that nothing is missed across a border.
using VisitBytes = std::function<bool(Address from, std::span<const std::byte> bytes)>;
void scan_mapping(Memory& memory, const Mapping& mapping, std::size_t overlap, const VisitBytes& visit);

// Every place of the cookie "xdebugpy", at most a few.
std::vector<Address> find_cookies(Memory& memory, const std::vector<Mapping>& data);

struct ScanHit {
    Address runtime{};
    int minor = 0;
};
// The first place that `options.probe` confirms as the _PyRuntime of 3.8 to 3.12. `minor` 0: try them all.
std::optional<ScanHit> find_by_shape(Memory& memory, const std::vector<Mapping>& data,
                                     const std::vector<Mapping>& all, int minor, const FindOptions& options);

}  // namespace pyprof
