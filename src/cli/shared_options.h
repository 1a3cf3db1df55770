// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands have, checked in one place so that they mean the same and fail with the same words.
#pragma once

#include "sample/async_sampler.h"
#include "sample/sampler.h"

#include <pyprof/error.h>

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

Result<pid_t> checked_pid(long pid);                          // --pid
Result<WhichThreads> which_threads(bool idle, bool gil);      // --idle, --gil
Result<AsyncMode> async_mode(const std::string& text);        // --async of what samples

// "did you mean X?" for a word that is nearly one of these, else nothing.
std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace pyprof
