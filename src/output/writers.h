// SPDX-License-Identifier: Apache-2.0
//
// The function of each format; the table in formats.cpp names them. None of them may look anywhere but
// at the resolved profile, so that equal profiles give equal files.
#pragma once

#include <pyprof/exporter.h>

namespace pyprof {

void write_collapsed(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out);
void write_flamegraph(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out);
void write_speedscope(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out);

}  // namespace pyprof
