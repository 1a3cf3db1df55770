// SPDX-License-Identifier: Apache-2.0
//
// On whose behalf we are root: a launched program runs as that user, and outputs belong to them. Read from
// the variables that sudo sets and from /etc/passwd and /etc/group alone (NSS can't be linked statically).
#pragma once

#include "base/file_owner.h"
#include "target/launch.h"

#include <optional>
#include <string>
#include <string_view>

namespace pyprof {

struct InvokingUser {
    RunAs run_as;
    std::string name;
    std::string home;  // where neither /etc/passwd nor sudo knows it, as login(1) has it: "/"
};

struct SudoVariables {
    std::string_view uid;   // SUDO_UID
    std::string_view gid;   // SUDO_GID
    std::string_view user;  // SUDO_USER
    std::string_view home = {};  // SUDO_HOME, of newer sudo alone
};

// Empty when a number is missing or no number, or when it was root itself. The groups are the user's own
// one and those of /etc/group that list the name.
std::optional<InvokingUser> invoking_user(const SudoVariables& sudo, std::string_view passwd,
                                          std::string_view group);

// From our environment; empty unless we are root.
std::optional<InvokingUser> find_invoking_user();

// To whom our outputs belong; empty: to us.
std::optional<FileOwner> invoking_owner();

// What the launched program finds instead of root's: HOME, USER, LOGNAME.
std::vector<std::pair<std::string, std::string>> environment_of(const InvokingUser& user);

}  // namespace pyprof
