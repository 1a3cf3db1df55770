// SPDX-License-Identifier: Apache-2.0
//
// Facts gathered below a root directory made for the test.
#include "target/permission_facts.h"

#include <catch2/catch.hpp>

#include <unistd.h>
#include <filesystem>
#include <fstream>

using namespace pyprof;
namespace fs = std::filesystem;

namespace {

class FakeRoot {
public:
    FakeRoot() {
        std::string name = (fs::temp_directory_path() / "pyprof-root-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~FakeRoot() { fs::remove_all(path_); }
    FakeRoot(const FakeRoot&) = delete;
    FakeRoot& operator=(const FakeRoot&) = delete;

    void put(const std::string& file, const std::string& text) const {
        const fs::path path = path_ / fs::path(file).relative_path();
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    void put_self(const std::string& more = "") const {
        put("/proc/self/status", "Tgid:\t50\nPid:\t50\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t50\n" + more);
    }
    // Files of the test belong to whoever runs it, so that is the uid of a process that may be dumped.
    void put_process(pid_t pid, pid_t parent, const std::string& more = "") const {
        const std::string directory = "/proc/" + std::to_string(pid);
        const std::string uid = std::to_string(::geteuid());
        put(directory + "/status", "Tgid:\t" + std::to_string(pid) + "\nUid:\t0\t" + uid + "\t0\t0\n" + more);
        put(directory + "/stat", std::to_string(pid) + " (name of " + std::to_string(pid) + ") S " +
                                     std::to_string(parent) + " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 1 0");
    }
    [[nodiscard]] AccessFacts gather(pid_t pid) const {
        return gather_access_facts(pid, {path_.string(), false});
    }

private:
    fs::path path_;
};

}  // namespace

TEST_CASE("permission facts: a plain process") {
    const FakeRoot root;
    root.put_self();
    root.put_process(123, 7);
    const AccessFacts facts = root.gather(123);
    CHECK(facts.exists);
    CHECK(facts.own_uid == 1000);
    CHECK(facts.target_uid == ::geteuid());
    CHECK(facts.is_target_dumpable);
    CHECK_FALSE(facts.has_ptrace_capability);
    CHECK_FALSE(facts.yama_scope);
    CHECK(facts.container == Container::kNone);
    CHECK_FALSE(facts.is_below_us);
    CHECK(facts.thread_of == 0);
    CHECK_FALSE(root.gather(124).exists);
}

TEST_CASE("permission facts: names of users, else numbers") {
    const FakeRoot root;
    root.put("/etc/passwd",
             "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\n:\n");
    root.put_self();
    CHECK(root.gather(1).own_user == "alice");
    CHECK(user_name(0, "root:x:0:0:::\n") == "root");
    CHECK(user_name(5, "root:x:0:0:::\nx\ny:z\n") == "5");
    CHECK(user_name(5, "") == "5");
}

TEST_CASE("permission facts: capability, seccomp, namespaces and capabilities of the target") {
    const FakeRoot root;
    root.put("/proc/self/status",
             "Tgid:\t50\nUid:\t0\t0\t0\t0\nNSpid:\t50\t3\nCapPrm:\t0000000000080001\nCapEff:"
             "\t0000000000080000\nSeccomp:\t2\n");
    root.put_process(123, 7, "CapPrm:\t0000000000000003\n");
    root.put_process(124, 7, "CapPrm:\t0000000000080000\n");
    CHECK(root.gather(123).has_ptrace_capability);
    CHECK(root.gather(123).seccomp_mode == 2);
    CHECK(root.gather(123).is_proc_foreign);
    CHECK(root.gather(123).target_has_more_capabilities);
    CHECK_FALSE(root.gather(124).target_has_more_capabilities);
}

TEST_CASE("permission facts: a /proc that does not know us is of another pid namespace") {
    const FakeRoot root;
    CHECK_FALSE(root.gather(123).is_proc_foreign);  // there is none
    root.put("/proc/stat", "");
    CHECK(root.gather(123).is_proc_foreign);
    root.put_self();
    CHECK_FALSE(root.gather(123).is_proc_foreign);
}

TEST_CASE("permission facts: a file of another owner tells that it may not be dumped") {
    const FakeRoot root;
    root.put_self();
    root.put("/proc/123/status", "Tgid:\t123\nUid:\t4242\t4242\t4242\t4242\n");
    CHECK_FALSE(root.gather(123).is_target_dumpable);
}

TEST_CASE("permission facts: Yama's scope, where there is one") {
    const FakeRoot root;
    root.put_self();
    for (int scope = 0; scope <= 3; ++scope) {
        root.put("/proc/sys/kernel/yama/ptrace_scope", std::to_string(scope) + "\n");
        CHECK(root.gather(1).yama_scope == scope);
    }
    root.put("/proc/sys/kernel/yama/ptrace_scope", "nonsense\n");
    CHECK_FALSE(root.gather(1).yama_scope);
}

TEST_CASE("permission facts: descent, tracer, thread, zombie") {
    const FakeRoot root;
    root.put_self();
    root.put_process(60, 50);
    root.put_process(61, 60);
    root.put_process(70, 71);
    root.put_process(71, 70);  // never so, but it must end
    CHECK(root.gather(61).is_below_us);
    CHECK_FALSE(root.gather(70).is_below_us);

    root.put_process(80, 1, "TracerPid:\t61\n");
    CHECK(root.gather(80).tracer == 61);
    CHECK(root.gather(80).tracer_name == "name of 61");

    root.put("/proc/90/status", "Tgid:\t80\nUid:\t0\t0\t0\t0\n");
    CHECK(root.gather(90).thread_of == 80);
    root.put("/proc/60/stat", "60 (x) Z 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 1 0");
    CHECK(root.gather(60).is_zombie);
    root.put("/proc/60/task/60/stat", "60 (x) Z 1");
    root.put("/proc/60/task/62/stat", "62 (x) Z 1");
    CHECK(root.gather(60).is_zombie);
    root.put("/proc/60/task/63/stat", "63 (x) S 1");  // it goes on without its main thread
    CHECK_FALSE(root.gather(60).is_zombie);
}

TEST_CASE("permission facts: containers by their marks") {
    const auto kind = [](const std::string& file, const std::string& text) {
        const FakeRoot root;
        root.put_self();
        root.put(file, text);
        return root.gather(1).container;
    };
    CHECK(kind("/.dockerenv", "") == Container::kDocker);
    CHECK(kind("/run/.containerenv", "") == Container::kPodman);
    CHECK(kind("/var/run/secrets/kubernetes.io/serviceaccount/token", "") == Container::kKubernetes);
    CHECK(kind("/proc/self/cgroup", "5:memory:/docker/0123abcd\n") == Container::kDocker);
    CHECK(kind("/proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n") ==
          Container::kKubernetes);
    CHECK(kind("/proc/self/cgroup", "0::/machine.slice/libpod-1.scope\n") == Container::kPodman);
    CHECK(kind("/proc/self/cgroup", "3:cpu:/lxc/web\n") == Container::kOther);
    CHECK(kind("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n") == Container::kNone);
    CHECK(kind("/proc/self/mountinfo",
               "70 60 254:1 /var/lib/docker/containers/01/hostname /etc/hostname rw - ext4 /dev/vda1 rw\n") ==
          Container::kDocker);
    // A host shows the mounts of its containers, too.
    CHECK(kind("/proc/self/mountinfo",
               "80 30 0:50 / /var/lib/docker/overlay2/01/merged rw - overlay overlay "
               "rw,lowerdir=/var/lib/docker/x\n") == Container::kNone);
}

TEST_CASE("permission facts: Kubernetes also by its variable") {
    const FakeRoot root;
    CHECK(gather_access_facts(1, {"/nonexistent", true}).container == Container::kKubernetes);
}

TEST_CASE("permission facts: security modules") {
    const FakeRoot root;
    root.put_self();
    root.put_process(123, 1);
    root.put("/sys/fs/selinux/booleans/deny_ptrace", "1 1");
    root.put("/proc/123/attr/current", "docker-default (enforce)\n");
    CHECK(root.gather(123).selinux_denies_ptrace);
    CHECK(root.gather(123).apparmor_profile == "docker-default (enforce)");
    root.put("/sys/fs/selinux/booleans/deny_ptrace", "0 0");
    CHECK_FALSE(root.gather(123).selinux_denies_ptrace);
}
