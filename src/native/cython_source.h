// SPDX-License-Identifier: Apache-2.0
//
// Lines of a Cython source. Cython writes no #line unless told to, so debug information names lines of the C file that
// it made; that file says in comments which line of the source each part was made of. C files are the target's: they are
// read once, to a limit, and nothing of them is shown but names of sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

class CythonLines {
public:
    CythonLines() = default;
    // Nothing is found in a text that is not Cython's.
    explicit CythonLines(std::string_view c_source);

    struct Place {
        std::string_view file;  // as the comment has it; valid while this lives
        std::int32_t line = 0;
    };
    // Of the comment last before `c_line`. `function`: the C function there, of a Python function or of a module's own
    // code; other ones have no source.
    [[nodiscard]] std::optional<Place> find(std::int32_t c_line, std::string_view function) const;
    // The names in them can be replaced, as by whole paths.
    [[nodiscard]] std::vector<std::string>& files() { return files_; }

private:
    struct Mark {
        std::int32_t c_line = 0;
        std::int32_t line = 0;   // 0: a C function ends
        std::uint32_t file = 0;  // in files_; [0] is one that is no source
    };
    bool add(std::string_view line, std::int32_t c_line);

    std::vector<Mark> marks_;  // in the order of the C file
    std::vector<std::string> files_{std::string()};
};

// The C files of one module.
class CythonSources {
public:
    // `roots`: directories in whose file systems to look, the target's first.
    explicit CythonSources(std::vector<std::string> roots) : roots_(std::move(roots)) {}

    // `c_file` as debug information has it.
    [[nodiscard]] std::optional<CythonLines::Place> find(const std::string& c_file, std::int32_t c_line, std::string_view function);

private:
    CythonLines read(const std::string& c_file);

    std::vector<std::string> roots_;
    std::map<std::string, CythonLines> files_;
    std::size_t taken_ = 0;  // bytes, of all files
};

}  // namespace pyprof
