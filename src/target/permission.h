// SPDX-License-Identifier: Apache-2.0
//
// Why a process can't be read or stopped, and the one command that helps. The judgement is a pure
// function of facts, so that every branch is tested on a machine that lacks Yama, containers and all;
// permission_facts.h gathers them.
#pragma once

#include <pyprof/error.h>

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pyprof {

enum class Container : std::uint8_t { kNone, kDocker, kPodman, kKubernetes, kOther };

struct AccessFacts {
    pid_t pid = 0;
    bool exists = true;
    bool is_zombie = false;
    pid_t thread_of = 0;  // the process, where `pid` is the number of one of its threads; else 0

    std::uint32_t target_uid = 0;
    std::string target_user;  // the name, or the number where there is none
    std::uint32_t own_uid = 0;
    std::string own_user;
    bool has_ptrace_capability = false;  // CAP_SYS_PTRACE is effective for us
    bool target_has_more_capabilities = false;
    bool is_target_dumpable = true;
    bool is_below_us = false;  // a descendant of ours, which Yama's scope 1 allows

    std::optional<int> yama_scope;           // empty: no Yama
    Container container = Container::kNone;  // that we run in
    bool is_proc_foreign = false;            // its numbers are of another pid namespace than ours
    int seccomp_mode = 0;                    // ours; 2: a filter
    bool selinux_denies_ptrace = false;
    std::string apparmor_profile;  // the target's, empty or "unconfined" where none holds it

    pid_t tracer = 0;
    std::string tracer_name;
};

enum class Access : std::uint8_t { kRead, kStop };

// Everything in the way, the surest first; empty when nothing that is known forbids it.
std::vector<Error> list_obstacles(const AccessFacts& facts, Access access);

// The first obstacle, or a message that the kernel refused for a reason unknown to us.
Error explain_refusal(const AccessFacts& facts, Access access);

}  // namespace pyprof
