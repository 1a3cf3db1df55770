// SPDX-License-Identifier: Apache-2.0
//
// compute_cr_origin (Objects/genobject.c): a tuple of tuples (file name, line, function name), the innermost first.
#include "python/coroutine_origin.h"

#include "python/object_kinds.h"
#include "python/objects.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace pyprof {

namespace {

constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kMostCharacters = 1024;
constexpr std::size_t kWords = 3;
constexpr std::uint64_t kMostLines = 1U << 30;

bool is_tuple(Memory& memory, const Layout& layout, Address object) {
    if (!can_be_object(object)) return false;
    const auto type = read_type(memory, layout, object);
    return type && can_be_object(*type) && type_name(memory, layout, *type) == "tuple";
}

}  // namespace

std::vector<OriginFrame> read_coroutine_origin(Memory& memory, const Layout& layout, Offset offset, Address coroutine) {
    if (!has(offset) || !can_be_object(coroutine)) return {};
    const auto note = read_pointer(memory, coroutine + at(offset));
    return note ? read_origin_note(memory, layout, *note) : std::vector<OriginFrame>();
}

std::vector<OriginFrame> read_origin_note(Memory& memory, const Layout& layout, Address note) {
    std::vector<OriginFrame> origin;
    if (!is_tuple(memory, layout, note)) return origin;
    const auto frames = read_tuple(memory, layout, note, kMostFrames);
    if (!frames) return origin;
    for (const Address frame : *frames) {
        const auto words = is_tuple(memory, layout, frame) ? read_tuple(memory, layout, frame, kWords) : std::nullopt;
        if (!words || words->size() != kWords) return {};
        for (const Address word : *words) {
            if (!can_be_object(word)) return {};
        }
        auto file = read_unicode(memory, layout, (*words)[0], kMostCharacters);
        const auto line = read_long(memory, layout, (*words)[1]);
        auto function = read_unicode(memory, layout, (*words)[2], kMostCharacters);
        if (!file || !line || !function || *line > kMostLines) return {};
        origin.push_back({std::move(*file), std::move(*function), static_cast<std::int32_t>(*line)});
    }
    return origin;
}

void strip_loop_frames(std::vector<OriginFrame>& origin) {
    static constexpr std::string_view kOfLoop[] = {"_run", "_run_once", "run_forever", "run_until_complete", "run"};
    const auto is_of_loop = [](const OriginFrame& frame) {
        const bool is_library = frame.file.find("/asyncio/") != std::string::npos || frame.file.find("/uvloop/") != std::string::npos;
        return is_library && std::find(std::begin(kOfLoop), std::end(kOfLoop), frame.function) != std::end(kOfLoop);
    };
    // From the innermost call of a handle outwards all is the loop: what runs it is in the stack's root already.
    origin.erase(std::find_if(origin.begin(), origin.end(), is_of_loop), origin.end());
}

}  // namespace pyprof
