// SPDX-License-Identifier: Apache-2.0
//
// An output format is one file in src/output with one function and one line in its table. An exporter
// sees a resolved profile and a stream, nothing of processes or of CPython.
#pragma once

#include <pyprof/error.h>
#include <pyprof/profile.h>

#include <iosfwd>
#include <span>
#include <string_view>

namespace pyprof {

struct ExportOptions {
    bool inverted = false;  // flame graph: leaves at the root
};

struct Format {
    std::string_view name;                         // "speedscope"
    std::span<const std::string_view> endings;     // ".speedscope.json", ...
    std::string_view description;                  // one line for --help
    bool wants_spans = false;                      // needs samples in the order of time
    void (*write)(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out) = nullptr;
};

std::span<const Format> formats();
// By name, else nullptr.
const Format* find_format(std::string_view name);
// By the longest ending of `path` that a format claims, else nullptr.
const Format* format_of_path(std::string_view path);

}  // namespace pyprof
