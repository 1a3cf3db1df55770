// SPDX-License-Identifier: Apache-2.0
//
// One pass over the components of a path, from the last to the first, so that the innermost library
// directory counts: a package inside a virtual environment inside lib/python3.12 is a package.
#include "profile/source_path.h"

#include <algorithm>
#include <cstddef>

namespace pyprof {
namespace {

bool is_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "python3.12", and "python3.13t" of a free-threaded build.
bool is_library_name(std::string_view name) {
    constexpr std::string_view kPython = "python";
    if (name.substr(0, kPython.size()) != kPython) return false;
    name.remove_prefix(kPython.size());
    if (!name.empty() && name.back() == 't') name.remove_suffix(1);
    const std::size_t dot = name.find('.');
    return dot != std::string_view::npos && is_digits(name.substr(0, dot)) && is_digits(name.substr(dot + 1));
}

// The component that ends before `end`, which is the index of a slash.
std::string_view component_before(std::string_view path, std::size_t end) {
    if (end == 0) return {};
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    return path.substr(begin, end - begin);
}

bool is_library_parent(std::string_view name) {
    return name == "lib" || name == "lib64" || name == "lib32";
}

bool is_below(std::string_view path, std::string_view directory) {
    return path.size() > directory.size() + 1 && path.substr(0, directory.size()) == directory &&
           path[directory.size()] == '/';
}

}  // namespace

SourcePath shorten(std::string_view path, std::string_view working_directory) {
    constexpr std::string_view kFrozen = "<frozen ";
    if (path.substr(0, kFrozen.size()) == kFrozen) return {path, Origin::kStandard};

    for (std::size_t slash = path.rfind('/'); slash != std::string_view::npos && slash > 0;
         slash = path.rfind('/', slash - 1)) {
        const std::string_view name = component_before(path, slash);
        const std::string_view below = path.substr(slash + 1);
        if (below.empty()) continue;
        if (name == "site-packages" || name == "dist-packages") return {below, Origin::kPackage};
        const std::size_t before = slash - name.size();  // just behind the slash before `name`
        if (is_library_name(name) && before > 0 && is_library_parent(component_before(path, before - 1))) {
            return {below, Origin::kStandard};
        }
    }

    while (path.size() > 2 && path.substr(0, 2) == "./") path.remove_prefix(2);
    while (!working_directory.empty() && working_directory.back() == '/') working_directory.remove_suffix(1);
    // Below "/" lies everything, which tells nothing.
    if (!working_directory.empty() && is_below(path, working_directory)) {
        path.remove_prefix(working_directory.size() + 1);
    }
    return {path, Origin::kProgram};
}

}  // namespace pyprof
