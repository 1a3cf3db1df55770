// SPDX-License-Identifier: Apache-2.0
//
// Names of code that the target makes while it runs, from the files that it writes for perf(1): /tmp/perf-PID.map, and
// the jitdumps that it has mapped. Files are opened once and kept, and read on where they have grown. Used on the
// main thread, but for note_jitdump().
#pragma once

#include "base/unique_fd.h"
#include "native/jit_names.h"
#include "profile/chunked_list.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace pyprof {

class MadeCode {
public:
    explicit MadeCode(pid_t pid) : pid_(pid) {}

    // The sampler's thread: a file that is mapped as jit-PID.dump is.
    void note_jitdump(const std::string& path) { jitdumps_.append(path); }
    static bool is_jitdump(std::string_view path);

    // Opens what there is, while the target lives.
    void open_files();
    [[nodiscard]] std::optional<std::string_view> find(Address code);

private:
    struct Source {
        UniqueFd file;
        std::size_t taken = 0;  // bytes that have been read and understood
        bool is_broken = false;
    };
    void read_perf_map();
    void read_jitdump(Source& source);

    pid_t pid_;
    pid_t own_pid_ = 0;  // 0: not asked yet
    ChunkedList<std::string> jitdumps_;
    std::uint32_t opened_ = 0;  // of them
    Source perf_map_;
    std::vector<Source> dumps_;
    JitNames names_;
};

}  // namespace pyprof
