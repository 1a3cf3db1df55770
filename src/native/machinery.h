// SPDX-License-Identifier: Apache-2.0
//
// Which functions are machinery: they say how the interpreter gets from one Python function to the next, not where
// time goes. Rules by name, as data; docs/native.md lists them for users. Nothing here hides the function that
// explains a leaf's time.
#pragma once

#include <cstdint>
#include <string_view>

namespace pyprof {

enum class NativeRole : std::uint8_t {
    kPlain,      // shown
    kInterior,   // shown only as the leaf: it did work of its own there, above others it passes a call on
    kMachinery,  // calls and nothing else: hidden, its time is that of its caller
    kEval,       // the interpreter's loop: what it runs are the Python frames
    kStart,      // what stands below a program's or a thread's first frame
};

// `function` as demangle() gives it. `in_interpreter`: in the module that holds the interpreter's loop.
NativeRole role_of_function(std::string_view function, bool in_interpreter);

}  // namespace pyprof
