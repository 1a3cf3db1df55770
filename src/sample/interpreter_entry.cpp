// SPDX-License-Identifier: Apache-2.0
#include "sample/interpreter_entry.h"

#include "sample/thread_reader.h"

namespace pyprof {

bool tells_entries(const Layout& layout) {
    return has(layout.thread.cframe) || layout.frame_root == FrameRoot::kThreadCurrent;
}

// From 3.10 to 3.12 the cframe stands on it, later the frames of entry do.
Address entry_on_c_stack(const Layout& layout, const ThreadReader& reader) {
    if (has(layout.thread.cframe)) {
        return Address{load<std::uint64_t>(reader.thread_bytes(), static_cast<std::uint64_t>(layout.thread.cframe))};
    }
    const Walk& walk = reader.walk();
    return walk.entries.empty() ? kNullAddress : walk.entries.front().address;
}

}  // namespace pyprof
