// SPDX-License-Identifier: Apache-2.0
//
// A terminal that shows grids and reads keys. While it is open the screen is ours; closing it, by whatever way,
// puts back what was there. Only one may be open at a time. Main thread only.
#pragma once

#include "live/grid.h"
#include "live/key.h"

#include <memory>
#include <optional>

namespace pyprof {

class Terminal {
public:
    virtual ~Terminal() = default;
    [[nodiscard]] virtual int rows() const = 0;
    [[nodiscard]] virtual int columns() const = 0;
    virtual void draw(const Grid& grid) = 0;
    // The next key that waits; nothing when none does. Keys come on stdin.
    virtual std::optional<Key> take_key() = 0;
    virtual void resize() = 0;   // the window has another size
    virtual void suspend() = 0;  // gives the screen back for a while
    virtual void resume() = 0;
};

// On stdin and stdout: by ncurses, or by plain ANSI sequences where its data base does not know the terminal.
// Nothing where there is no terminal, or one that can't move its cursor (TERM=dumb or none).
std::unique_ptr<Terminal> open_terminal();

// The two, for open_terminal().
std::unique_ptr<Terminal> open_curses(bool colours, bool unicode);
std::unique_ptr<Terminal> open_ansi(bool colours, bool unicode);

}  // namespace pyprof
