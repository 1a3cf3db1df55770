// SPDX-License-Identifier: Apache-2.0
//
// The table of output formats. A new one is a line here and a file beside this one.
#include <algorithm>
#include <array>

#include "output/writers.h"

namespace pyprof {
namespace {

constexpr std::string_view kFlamegraphEndings[] = {".svg"};
constexpr std::string_view kCollapsedEndings[] = {".collapsed", ".folded", ".txt"};
constexpr std::string_view kSpeedscopeEndings[] = {".speedscope.json", ".speedscope", ".json"};

constexpr std::array kFormats = {
    Format{"flamegraph", kFlamegraphEndings, "interactive picture, one SVG file", false, write_flamegraph},
    Format{"collapsed", kCollapsedEndings, "text, one line a stack with its samples", false, write_collapsed},
    Format{"speedscope", kSpeedscopeEndings, "JSON for the speedscope viewer, in the order of time", true,
           write_speedscope},
};

bool ends_with(std::string_view path, std::string_view ending) {
    return path.size() > ending.size() && path.substr(path.size() - ending.size()) == ending;
}

}  // namespace

std::span<const Format> formats() {
    return kFormats;
}

const Format* find_format(std::string_view name) {
    const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                    [&](const Format& format) { return format.name == name; });
    return found == kFormats.end() ? nullptr : &*found;
}

const Format* format_of_path(std::string_view path) {
    const Format* best = nullptr;
    std::size_t longest = 0;
    for (const Format& format : kFormats) {
        for (const std::string_view ending : format.endings) {
            if (ending.size() <= longest || !ends_with(path, ending)) continue;
            best = &format;
            longest = ending.size();
        }
    }
    return best;
}

}  // namespace pyprof
