// SPDX-License-Identifier: Apache-2.0
//
// Frames and tasks of a dump, as text and as JSON.
#pragma once

#include "output/json_writer.h"
#include "sample/dump.h"

#include <span>
#include <string>
#include <string_view>

namespace pyprof {

// "name (file.py:line)", nothing in it that a terminal would obey.
[[nodiscard]] std::string label_of(const DumpFrame& frame, const std::string& working_directory, bool full_filename);

// A tree: below each task those that it awaits. A task with several awaiters is described once.
void append_tasks(const Dump& dump, bool full_filenames, std::string& out);

// "frames": [...]
void write_frames(PrettyJsonWriter& writer, std::span<const DumpFrame> frames, const char* key = "frames");
// "tasks": [...] and what is said of all of them.
void write_tasks(PrettyJsonWriter& writer, const Dump& dump);

}  // namespace pyprof
