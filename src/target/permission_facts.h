// SPDX-License-Identifier: Apache-2.0
//
// Gathers what permission.h judges, from /proc and its neighbours below a root directory that tests
// replace. It changes nothing and asks for no right.
#pragma once

#include "target/permission.h"

namespace pyprof {

struct AccessSources {
    std::string root;                      // put before "/proc/..."; empty for the real one
    bool has_kubernetes_variable = false;  // KUBERNETES_SERVICE_HOST
    static AccessSources real();
};

AccessFacts gather_access_facts(pid_t pid, const AccessSources& sources);
// explain_refusal over the real facts.
Error explain_refusal(pid_t pid, Access access);

// The name of a user in an /etc/passwd text, else the number. NSS is left out: it can't be linked
// statically, and a message with a number is good enough.
std::string user_name(std::uint32_t uid, std::string_view passwd);

}  // namespace pyprof
