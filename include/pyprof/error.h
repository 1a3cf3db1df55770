// SPDX-License-Identifier: Apache-2.0
//
// The second of the three kinds of error (docs/architecture.md): what was asked cannot be done. An
// Error names the thing and the reason in `message` and the remedy in `hint`; only src/cli prints it.
// Normal movement of the target is never an Error, and our own bugs end in check().
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace pyprof {

// Exit codes of the program; documented in README.md. With a launched program its own status wins.
enum class ExitCode : int {
    kOk = 0,
    kFailure = 1,
    kUsage = 2,
    kNoProcess = 3,
    kPermission = 4,
    kNotPython = 5,
    kNoSamples = 6,
    kOwnFailure = 125,
    kNotExecutable = 126,
    kNotFound = 127,
};

struct Error {
    ExitCode code = ExitCode::kFailure;
    std::string message;  // one line, no full stop: "no process 123"
    std::string hint;     // one line with the remedy, may be empty
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ExitCode code, std::string message, std::string hint = {}) {
    return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

// Prefixes the message with what was being done: "reading /proc/7/maps: ...".
Error with_context(Error error, std::string_view what);

// Aborts with `text` when our own reasoning is broken. Stays in release builds.
void check(bool condition, const char* text);

}  // namespace pyprof
