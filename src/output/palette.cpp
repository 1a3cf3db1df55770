// SPDX-License-Identifier: Apache-2.0
//
// Family by origin, shade by a hash of the module's name, tone by a hash of the function's.
#include "output/palette.h"

#include <cstdint>

#include "profile/source_path.h"

namespace pyprof {
namespace {

constexpr std::uint32_t kShades = 8;

// FNV-1a, 32 bits: the same on every machine and for ever, which std::hash does not promise.
std::uint32_t fnv1a(std::string_view text) {
    std::uint32_t hash = 2166136261U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash;
}

std::uint32_t spread(std::string_view text) {
    const std::uint32_t hash = fnv1a(text);
    return hash ^ hash >> 16;
}

char family_of(Origin origin) {
    switch (origin) {
        case Origin::kPackage:
            return 'p';
        case Origin::kStandard:
            return 's';
        case Origin::kProgram:
            break;
    }
    return 'o';
}

}  // namespace

std::string colour_class(const ResolvedProfile::Frame& frame, std::string_view working_directory) {
    if (frame.kind == FrameKind::kMarker) return "m";
    const char* const kTones[] = {"", " b", " c"};
    const char* const tone = kTones[spread(frame.name) % 3];
    if (frame.kind == FrameKind::kNative) return 'n' + std::to_string(spread(frame.module) % kShades) + tone;
    const SourcePath source = shorten(frame.full_file, working_directory);
    // A package or a part of the standard library is one module; of the program each file is.
    std::string_view module = source.short_path;
    if (source.origin != Origin::kProgram) module = module.substr(0, module.find('/'));
    return family_of(source.origin) + std::to_string(spread(module) % kShades) + tone;
}

}  // namespace pyprof
