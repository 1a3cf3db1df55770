// SPDX-License-Identifier: Apache-2.0
//
// How a person names functions: `function`, `Class.method`, `module:function`, `file.py:function`, or any of
// them as a glob. A name says nothing of whether there is such a function; what a target calls its functions
// and files is foreign text of any length, so matching takes no more than the product of both lengths.
#pragma once

#include <pyprof/error.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

// A function as far as samples tell functions apart: those of one qualified name in one file are one.
struct SeenFunction {
    std::string name;       // qualified from Python 3.11 on, else plain
    std::string file;       // as the target gave it
    std::string file_short;
};

// "Page.median (app.py)"
std::string label_of(const SeenFunction& function);

class WatchName {
public:
    static Result<WatchName> parse(std::string_view text);

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] const std::string& function() const { return function_; }
    [[nodiscard]] bool matches(const SeenFunction& function) const;

private:
    enum class Place : std::uint8_t { kAnywhere, kFile, kModule };

    [[nodiscard]] bool matches_name(std::string_view name) const;
    [[nodiscard]] bool matches_place(std::string_view file) const;

    std::string text_;
    Place place_ = Place::kAnywhere;
    std::string where_;  // of a module with slashes in place of dots
    std::string function_;
    bool glob_place_ = false;
    bool glob_function_ = false;
};

// `*` any text, `?` one character, `[a-z]` and `[!a-z]` one of them or not; a `[` that is never closed is one
// itself.
bool matches_glob(std::string_view glob, std::string_view text);

// At most three of `seen` that may have been meant, the likeliest first.
std::vector<const SeenFunction*> near_misses(const WatchName& name, const std::vector<SeenFunction>& seen);

// The edits (a letter put in, left out, changed, or two swapped) from one text to the other; above `limit` just
// limit + 1.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

}  // namespace pyprof
