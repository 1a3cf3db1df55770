// SPDX-License-Identifier: Apache-2.0
//
// Names of functions that Cython makes, as its Compiler/Naming.py and the mangling of Symtab.py spell them (0.29 to 3.3):
// a prefix for the kind, the module's and classes' names with their lengths before them, then the function's number and
// name. Symbols come from foreign files; demangle() bounds their length.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pyprof {

// "run" of __pyx_pw_5hello_1run, "Foo.bar" of a method. Nothing for functions of other kinds.
std::optional<std::string> cython_name(std::string_view symbol);

// One function of Python may be several of C that call each other: the wrapper (1), what was written (2), and of cpdef what C
// code calls (3). 0: none of these.
int cython_layer(std::string_view symbol);

// The body of a generator or a coroutine has a number and no name: __pyx_gb_5hello_4generator1.
bool is_generator_body(std::string_view symbol);
// Whether `function` is the Python function whose generators run `body`: __pyx_pw_5hello_3count for the one above.
bool makes_generator(std::string_view function, std::string_view body);

}  // namespace pyprof
