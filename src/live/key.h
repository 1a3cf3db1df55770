// SPDX-License-Identifier: Apache-2.0
//
// What a person does at a terminal, whichever library read it.
#pragma once

#include <cstdint>

namespace pyprof {

struct Key {
    enum class Kind : std::uint8_t {
        kCharacter,
        kEnter,
        kEscape,
        kBackspace,
        kUp,
        kDown,
        kLeft,
        kRight,
        kPageUp,
        kPageDown,
        kHome,
        kEnd,
        kWheelUp,
        kWheelDown,
        kClick,
        kResize,
        kOther,
    };
    Kind kind = Kind::kOther;
    char32_t character = 0;  // of kCharacter; control characters, too
    int row = 0;             // of kClick
    int column = 0;
};

}  // namespace pyprof
