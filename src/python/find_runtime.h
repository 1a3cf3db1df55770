// SPDX-License-Identifier: Apache-2.0
//
// Finds _PyRuntime, the root of everything that CPython keeps, and the version of the interpreter. The
// easy ways come first (a symbol, a section), the scan of data segments last. What is found by a scan
// or carries no mark of its own is a claim: only a walk from there proves it.
#pragma once

#include <pyprof/target.h>

#include <cstdint>
#include <functional>
#include <string>

namespace pyprof {

struct FoundRuntime {
    Address runtime{};
    // PY_VERSION_HEX; 0x03NN0000 where only "3.N" is known, 0 where nothing is.
    std::uint32_t version_hex = 0;
    // False while the interpreter has not got as far as its first PyInterpreterState: look again later.
    bool is_initialised = false;
    bool has_debug_offsets = false;  // starts with the cookie of _Py_DebugOffsets
    std::string how;                 // "symbol _PyRuntime", "section .PyRuntime", "cookie", "scan"
    std::string version_how;         // "Py_Version", "debug offsets", "the name of the file", ...
    std::string module_path;         // the file that holds it
};

// FoundRuntime::version_how where nothing but FindOptions::probe told it.
constexpr const char* kVersionByWalk = "the walk that made sense";

struct FindOptions {
    bool may_scan = true;  // search data segments where symbols and sections say nothing
    // Whether a walk from this runtime, read as 3.`minor`, makes sense. Without it nothing below 3.13 is
    // searched for by scanning, since nothing there marks the place.
    std::function<bool(Address runtime, int minor)> probe;
};

// Fails with kNotPython, which names the executable and, where a process below it runs Python, that one.
Result<FoundRuntime> find_runtime(Target& target, const FindOptions& options = {});

constexpr int minor_of(std::uint32_t version_hex) {
    return static_cast<int>(version_hex >> 16 & 0xff);
}
constexpr int major_of(std::uint32_t version_hex) {
    return static_cast<int>(version_hex >> 24);
}

}  // namespace pyprof
