// SPDX-License-Identifier: Apache-2.0
//
// Each fact stands alone: what can't be read keeps its default, which never accuses.
#include "target/permission_facts.h"

#include "base/parse.h"
#include "target/proc_files.h"
#include "target/proc_parse.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <algorithm>
#include <cstdlib>

namespace pyprof {
namespace {

constexpr std::uint64_t kCapSysPtrace = std::uint64_t{1} << 19;  // linux/capability.h
constexpr std::size_t kSmallFile = 64 << 10;

std::string read_small(const AccessSources& sources, const std::string& path) {
    return read_file_at(AT_FDCWD, sources.root + path, kSmallFile).value_or(std::string());
}

std::string first_line(std::string text) {
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
}

bool exists(const AccessSources& sources, const char* path) {
    return ::access((sources.root + path).c_str(), F_OK) == 0;
}

// An engine mounts the name files of a container from its own directory. With cgroup v2 and a cgroup
// namespace that is all that tells; other mounts are left out, since a host shows those of its containers.
std::string engine_mounts(const AccessSources& sources) {
    const std::string text = read_small(sources, "/proc/self/mountinfo");
    std::string found;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        if (line.find(" /etc/hostname ") != std::string_view::npos ||
            line.find(" /etc/hosts ") != std::string_view::npos) {
            found.append(line);
        }
        at = end + 1;
    }
    return found;
}

Container find_container(const AccessSources& sources) {
    if (sources.has_kubernetes_variable || exists(sources, "/var/run/secrets/kubernetes.io"))
        return Container::kKubernetes;
    if (exists(sources, "/.dockerenv")) return Container::kDocker;
    if (exists(sources, "/run/.containerenv")) return Container::kPodman;
    const std::string text = read_small(sources, "/proc/self/cgroup") + engine_mounts(sources);
    const auto mentions = [&](const char* word) { return text.find(word) != std::string::npos; };
    if (mentions("kubepods") || mentions("/kubelet/pods/")) return Container::kKubernetes;
    if (mentions("/docker/") || mentions("/docker-")) return Container::kDocker;
    if (mentions("libpod-") || mentions("/overlay-containers/")) return Container::kPodman;
    if (mentions("/lxc/") || mentions("cri-containerd-")) return Container::kOther;
    return Container::kNone;
}

bool is_descendant(const AccessSources& sources, pid_t pid, pid_t ancestor) {
    constexpr int kDeepest = 64;
    for (int depth = 0; depth < kDeepest && pid > 1; ++depth) {
        const auto stat = parse_stat(read_small(sources, fmt::format("/proc/{}/stat", pid)));
        if (!stat) return false;
        if (stat->parent == ancestor) return true;
        pid = stat->parent;
    }
    return false;
}

void add_target(const AccessSources& sources, const ProcStatus& own, const std::string& passwd,
                AccessFacts& facts) {
    const pid_t living = living_thread_of(facts.pid, sources.root);
    facts.is_zombie = living == 0;
    const std::string process = fmt::format("/proc/{}", facts.is_zombie ? facts.pid : living);
    const auto status = parse_status(read_small(sources, process + "/status"));
    struct stat info {};
    facts.exists = ::stat(fmt::format("{}/proc/{}", sources.root, facts.pid).c_str(), &info) == 0;
    if (!facts.exists) return;
    facts.target_uid = status ? status->effective_uid : info.st_uid;
    facts.target_user = user_name(facts.target_uid, passwd);
    if (!status) return;  // hidepid=1
    facts.thread_of = status->thread_group == facts.pid ? 0 : status->thread_group;
    // The kernel gives the files of a process that may not be dumped to root, though not its directory
    // (task_dump_owner in fs/proc/base.c).
    const std::string file = sources.root + process + "/status";
    facts.is_target_dumpable = ::stat(file.c_str(), &info) != 0 || info.st_uid == facts.target_uid;
    facts.target_has_more_capabilities = (status->permitted_capabilities & ~own.permitted_capabilities) != 0;
    facts.is_below_us = is_descendant(sources, facts.pid, own.thread_group);
    facts.apparmor_profile = first_line(read_small(sources, process + "/attr/current"));
    facts.tracer = status->tracer;
    if (facts.tracer != 0) {
        const auto tracer = parse_stat(read_small(sources, fmt::format("/proc/{}/stat", facts.tracer)));
        if (tracer) facts.tracer_name = tracer->name;
    }
}

}  // namespace

AccessSources AccessSources::real() {
    return {"", std::getenv("KUBERNETES_SERVICE_HOST") != nullptr};
}

AccessFacts gather_access_facts(pid_t pid, const AccessSources& sources) {
    AccessFacts facts;
    facts.pid = pid;
    const std::string passwd =
        read_file_at(AT_FDCWD, sources.root + "/etc/passwd", 4 << 20).value_or(std::string());
    const ProcStatus own = parse_status(read_small(sources, "/proc/self/status")).value_or(ProcStatus{});
    facts.own_uid = own.effective_uid;
    facts.own_user = user_name(own.effective_uid, passwd);
    facts.has_ptrace_capability = (own.effective_capabilities & kCapSysPtrace) != 0;
    facts.seccomp_mode = own.seccomp_mode;
    // Of a namespace above ours it has several numbers for us, of one below us none.
    facts.is_proc_foreign = own.namespace_ids.size() > 1 || (own.thread_group == 0 && exists(sources, "/proc/stat"));
    facts.container = find_container(sources);
    const auto scope = parse_unsigned(first_line(read_small(sources, "/proc/sys/kernel/yama/ptrace_scope")));
    if (scope && *scope <= 3) facts.yama_scope = static_cast<int>(*scope);
    facts.selinux_denies_ptrace =
        read_small(sources, "/sys/fs/selinux/booleans/deny_ptrace").starts_with("1");
    add_target(sources, own, passwd, facts);
    return facts;
}

Error explain_refusal(pid_t pid, Access access) {
    return explain_refusal(gather_access_facts(pid, AccessSources::real()), access);
}

std::string user_name(std::uint32_t uid, std::string_view passwd) {
    // name:password:uid:...
    while (!passwd.empty()) {
        const std::string_view line = passwd.substr(0, passwd.find('\n'));
        passwd.remove_prefix(std::min(line.size() + 1, passwd.size()));
        const std::size_t name = line.find(':');
        const std::size_t password = name == std::string_view::npos ? name : line.find(':', name + 1);
        if (password == std::string_view::npos) continue;
        const std::string_view rest = line.substr(password + 1);
        if (parse_unsigned(rest.substr(0, rest.find(':'))) == uid) return std::string(line.substr(0, name));
    }
    return fmt::format("{}", uid);
}

}  // namespace pyprof
