// SPDX-License-Identifier: Apache-2.0
//
// The kernel's own order is in kernel/ptrace.c (__ptrace_may_access) and security/yama/yama_lsm.c; ours
// puts first what no other remedy gets around.
#include "target/permission.h"

#include <fmt/format.h>

namespace pyprof {
namespace {

constexpr auto kSudo = "sudo env \"PATH=$PATH\" pyprof ...";
constexpr auto kSetcap = "sudo setcap cap_sys_ptrace+ep \"$(command -v pyprof)\"";

Error denied(std::string message, std::string hint) {
    return {ExitCode::kPermission, std::move(message), std::move(hint)};
}

Error explain_missing(const AccessFacts& facts) {
    return {ExitCode::kNoProcess, fmt::format("no process {}", facts.pid),
            facts.container != Container::kNone
                ? "pyprof runs in a container and sees only the processes of that container"
                : ""};
}

// All that goes by number would be another process's.
Error explain_foreign_proc() {
    return {ExitCode::kFailure, "/proc is of another pid namespace than pyprof is in, so that its numbers mean other processes",
            "give pyprof a /proc of its own: unshare --mount-proc ..., or mount -t proc proc /proc in a mount namespace of its own; or "
            "enter the namespace of the process first: sudo nsenter --pid --mount --target PID pyprof ..."};
}

std::string container_remedy(const AccessFacts& facts) {
    switch (facts.container) {
        case Container::kDocker:
            return "give the container the right: docker run --cap-add=SYS_PTRACE ... (compose: cap_add: "
                   "[SYS_PTRACE]), "
                   "or run pyprof on the host: sudo pyprof record --pid HOSTPID";
        case Container::kPodman:
            return "give the container the right: podman run --cap-add=SYS_PTRACE ..., or run pyprof on the "
                   "host: "
                   "sudo pyprof record --pid HOSTPID";
        case Container::kKubernetes:
            return "run: kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=general -- pyprof "
                   "..., or give "
                   "the container securityContext.capabilities.add: [\"SYS_PTRACE\"]";
        case Container::kOther:
            return "start the container with the capability CAP_SYS_PTRACE, or run pyprof on the host: "
                   "sudo pyprof record --pid HOSTPID";
        case Container::kNone:
            break;
    }
    return "give it back, for example in the unit's CapabilityBoundingSet=, or run pyprof from another root "
           "shell";
}

// As root (or with the capability), where that can be had at all.
std::string root_remedy(const AccessFacts& facts) {
    if (facts.container != Container::kNone) return container_remedy(facts);
    return fmt::format("run: {}", kSudo);
}

// As the user whose process it is: in a container that needs no capability.
std::string user_remedy(const AccessFacts& facts) {
    const bool is_docker = facts.container == Container::kDocker;
    if (!is_docker && facts.container != Container::kPodman) return root_remedy(facts);
    return fmt::format("run: {} exec -u {} CONTAINER pyprof record --pid {}", is_docker ? "docker" : "podman", facts.target_uid, facts.pid);
}

Error explain_yama(const AccessFacts& facts) {
    const int scope = *facts.yama_scope;
    const std::string message =
        fmt::format("ptrace_scope is {}, which keeps us from process {}", scope, facts.pid);
    if (scope >= 3) return denied(message, "it cannot be lifted without a reboot (kernel.yama.ptrace_scope)");
    if (facts.container != Container::kNone) {
        return denied(message, scope == 1
                                   ? "start the program under pyprof: pyprof record -- python app.py; or " +
                                         container_remedy(facts)
                                   : container_remedy(facts));
    }
    const std::string anyway =
        fmt::format("run as root: {}; or give only this binary the right: {}", kSudo, kSetcap);
    if (scope == 2) return denied(message, anyway);
    return denied(message, "start the program under pyprof: pyprof record -- python app.py; or " + anyway +
                               "; or until the next reboot: sudo sysctl kernel.yama.ptrace_scope=0");
}

// What hinders those who have not the capability.
void list_unprivileged(const AccessFacts& facts, std::vector<Error>& found) {
    if (facts.own_uid == 0) {
        const bool needs_it = facts.target_uid != 0 || !facts.is_target_dumpable ||
                              facts.target_has_more_capabilities || facts.yama_scope.value_or(0) > 0;
        if (needs_it) {
            found.push_back(
                denied(fmt::format("root has not the capability CAP_SYS_PTRACE here, which process {} needs",
                                   facts.pid),
                       container_remedy(facts)));
        }
        return;
    }
    if (facts.target_uid != facts.own_uid) {
        found.push_back(denied(
            fmt::format("process {} belongs to {}; you are {}", facts.pid, facts.target_user, facts.own_user),
            user_remedy(facts)));
    } else if (!facts.is_target_dumpable || facts.target_has_more_capabilities) {
        found.push_back(denied(fmt::format("process {} is protected (setuid, file capabilities or "
                                           "prctl(PR_SET_DUMPABLE, 0)), even from {}",
                                           facts.pid, facts.own_user),
                               root_remedy(facts)));
    }
    const int scope = facts.yama_scope.value_or(0);
    if (scope == 2 || (scope == 1 && !facts.is_below_us)) found.push_back(explain_yama(facts));
}

void list_policies(const AccessFacts& facts, std::vector<Error>& found) {
    if (facts.selinux_denies_ptrace) {
        found.push_back(
            denied(fmt::format("SELinux forbids ptrace (deny_ptrace), also of process {}", facts.pid),
                   "run: sudo setsebool deny_ptrace 0"));
    }
}

// What may be the reason, but only when nothing surer was found.
void list_suspects(const AccessFacts& facts, std::vector<Error>& found) {
    if (!facts.apparmor_profile.empty() && facts.apparmor_profile != "unconfined") {
        found.push_back(
            denied(fmt::format("process {} is held by the AppArmor profile '{}', which may forbid ptrace",
                               facts.pid, facts.apparmor_profile),
                   "look for DENIED in the kernel's log (sudo dmesg) and allow ptrace in that profile"));
    }
    if (facts.seccomp_mode == 2) {
        found.push_back(
            denied(fmt::format("a seccomp filter holds us and may forbid reading process {}", facts.pid),
                   facts.container == Container::kNone ? "run pyprof outside the sandbox"
                                                       : container_remedy(facts)));
    }
}

}  // namespace

std::vector<Error> list_obstacles(const AccessFacts& facts, Access access) {
    if (facts.is_proc_foreign) return {explain_foreign_proc()};
    if (!facts.exists) return {explain_missing(facts)};
    if (facts.is_zombie) return {{ExitCode::kNoProcess, fmt::format("process {} has ended", facts.pid), ""}};
    if (facts.thread_of != 0) {
        return {{ExitCode::kNoProcess,
                 fmt::format("{} is a thread of process {}", facts.pid, facts.thread_of),
                 fmt::format("use --pid {}", facts.thread_of)}};
    }
    std::vector<Error> found;
    if (access == Access::kStop && facts.tracer != 0) {
        found.push_back(denied(
            fmt::format("process {} is already traced by {} (process {})", facts.pid,
                        facts.tracer_name.empty() ? "another program" : facts.tracer_name, facts.tracer),
            "detach that tracer first, or use --nonblocking, which stops nothing"));
    }
    if (facts.yama_scope.value_or(0) >= 3) found.push_back(explain_yama(facts));
    list_policies(facts, found);
    if (!facts.has_ptrace_capability) list_unprivileged(facts, found);
    return found;
}

Error explain_refusal(const AccessFacts& facts, Access access) {
    std::vector<Error> found = list_obstacles(facts, access);
    if (found.empty()) list_suspects(facts, found);
    if (!found.empty()) return found.front();
    return denied(fmt::format("the kernel refuses access to process {}", facts.pid),
                  facts.has_ptrace_capability ? "a user namespace or a security module may be the reason"
                                              : root_remedy(facts));
}

}  // namespace pyprof
