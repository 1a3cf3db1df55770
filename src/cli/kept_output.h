// SPDX-License-Identifier: Apache-2.0
//
// What a launched program prints while the terminal is a screen of ours: it goes to a file without a name, and is shown
// afterwards. Nothing of it is lost but by our own death.
#pragma once

#include "base/unique_fd.h"

#include <sys/types.h>

namespace pyprof {

class KeptOutput {
public:
    // From now on stdout, and stderr where it is a terminal, are the file; a program that is launched inherits them.
    void begin();
    // They are the terminal again. What inherited them goes on writing to the file.
    void end();
    [[nodiscard]] bool is_kept() const { return static_cast<bool>(file_); }
    // Prints what has come since it was last called.
    void show();

private:
    UniqueFd file_;
    UniqueFd stdout_;
    UniqueFd stderr_;
    off_t shown_ = 0;
};

}  // namespace pyprof
