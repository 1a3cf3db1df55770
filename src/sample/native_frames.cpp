// SPDX-License-Identifier: Apache-2.0
#include "sample/native_frames.h"

#include <algorithm>

namespace pyprof {

std::vector<ResolvedProfile::Frame> name_frames(const StackTable& stacks, StackId stack, NativeNames& natives) {
    std::vector<Frame> frames;
    for (; stack != kRootStack; stack = stacks.node(stack).parent) frames.push_back(stacks.frame(stacks.node(stack).frame));
    std::reverse(frames.begin(), frames.end());
    const auto is_python = [](const Frame& frame) { return frame.kind == FrameKind::kPython; };
    std::vector<ResolvedProfile::Frame> named;
    std::vector<std::uint32_t> run;
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const Frame& frame = frames[i];
        if (frame.kind != FrameKind::kNative) {
            const std::string file(stacks.string(frame.file));
            named.push_back({frame.kind, std::string(stacks.string(frame.name)), file, file, frame.line, {}});
            continue;
        }
        run.push_back(static_cast<std::uint32_t>(frame.line));
        if (i + 1 < frames.size() && frames[i + 1].kind == FrameKind::kNative) continue;
        const auto here = frames.begin() + static_cast<std::ptrdiff_t>(i);
        natives.name_run(run, {std::none_of(here, frames.end(), is_python), std::none_of(frames.begin(), here, is_python)}, named);
        run.clear();
    }
    return named;
}

}  // namespace pyprof
