// SPDX-License-Identifier: Apache-2.0
//
// Every reason that access is refused for, and its remedy, on facts that this machine may never show.
#include "target/permission.h"

#include <catch2/catch.hpp>

using namespace pyprof;

namespace {

// Alice's process, looked at by alice, with nothing in the way.
AccessFacts plain() {
    AccessFacts facts;
    facts.pid = 123;
    facts.target_uid = facts.own_uid = 1000;
    facts.target_user = facts.own_user = "alice";
    return facts;
}

bool mentions(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// The message and the hint of the first obstacle, which is one line each.
std::string explained(const AccessFacts& facts, Access access = Access::kRead) {
    const Error error = explain_refusal(facts, access);
    CHECK(error.code == ExitCode::kPermission);
    CHECK_FALSE(mentions(error.message + error.hint, "\n"));
    CHECK_FALSE(error.hint.empty());
    return error.message + " -> " + error.hint;
}

}  // namespace

TEST_CASE("permission: with nothing in the way there is no obstacle") {
    CHECK(list_obstacles(plain(), Access::kRead).empty());
    CHECK(list_obstacles(plain(), Access::kStop).empty());
    CHECK(mentions(explained(plain()), "refuses access to process 123"));
}

TEST_CASE("permission: no such process, with a hint where /proc or a container hides it") {
    AccessFacts facts = plain();
    facts.exists = false;
    CHECK(explain_refusal(facts, Access::kRead).code == ExitCode::kNoProcess);
    CHECK(explain_refusal(facts, Access::kRead).message == "no process 123");
    CHECK(explain_refusal(facts, Access::kRead).hint.empty());
    facts.container = Container::kDocker;
    CHECK(mentions(explain_refusal(facts, Access::kRead).hint, "container"));
    facts.is_proc_foreign = true;
    for (const bool exists : {true, false}) {
        facts.exists = exists;
        CHECK(explain_refusal(facts, Access::kRead).code == ExitCode::kFailure);
        CHECK(mentions(explain_refusal(facts, Access::kRead).message, "another pid namespace"));
        CHECK(mentions(explain_refusal(facts, Access::kRead).hint, "--mount-proc"));
    }
}

TEST_CASE("permission: a zombie and a thread are no process to read") {
    AccessFacts facts = plain();
    facts.is_zombie = true;
    CHECK(explain_refusal(facts, Access::kRead).message == "process 123 has ended");
    CHECK(explain_refusal(facts, Access::kRead).code == ExitCode::kNoProcess);
    facts = plain();
    facts.thread_of = 100;
    CHECK(explain_refusal(facts, Access::kRead).hint == "use --pid 100");
}

TEST_CASE("permission: another user's process names both and suggests sudo") {
    AccessFacts facts = plain();
    facts.own_uid = 1001;
    facts.own_user = "bob";
    const std::string text = explained(facts);
    CHECK(mentions(text, "process 123 belongs to alice; you are bob"));
    CHECK(mentions(text, "sudo env \"PATH=$PATH\" pyprof"));
    facts.container = Container::kDocker;
    CHECK_FALSE(mentions(explained(facts), "sudo env"));
    CHECK(mentions(explained(facts), "docker exec -u 1000 CONTAINER pyprof"));
    facts.has_ptrace_capability = true;
    CHECK(list_obstacles(facts, Access::kRead).empty());
}

TEST_CASE("permission: Yama's scopes 0 to 3") {
    AccessFacts facts = plain();
    facts.yama_scope = 0;
    CHECK(list_obstacles(facts, Access::kRead).empty());

    facts.yama_scope = 1;
    std::string text = explained(facts);
    CHECK(mentions(text, "ptrace_scope is 1"));
    CHECK(mentions(text, "pyprof record -- python app.py"));
    CHECK(mentions(text, "sudo sysctl kernel.yama.ptrace_scope=0"));
    CHECK(mentions(text, "setcap cap_sys_ptrace+ep"));
    facts.is_below_us = true;
    CHECK(list_obstacles(facts, Access::kRead).empty());

    facts.yama_scope = 2;
    text = explained(facts);
    CHECK(mentions(text, "ptrace_scope is 2"));
    CHECK_FALSE(mentions(text, "record --"));  // would not help
    CHECK(mentions(text, "setcap cap_sys_ptrace+ep"));
    facts.has_ptrace_capability = true;
    CHECK(list_obstacles(facts, Access::kRead).empty());

    facts.yama_scope = 3;  // holds for everybody
    CHECK(mentions(explained(facts), "cannot be lifted without a reboot"));
}

TEST_CASE("permission: Yama inside a container points to the container's rights") {
    AccessFacts facts = plain();
    facts.yama_scope = 1;
    facts.container = Container::kDocker;
    CHECK(mentions(explained(facts), "pyprof record -- python app.py"));
    CHECK(mentions(explained(facts), "--cap-add=SYS_PTRACE"));
    CHECK_FALSE(mentions(explained(facts), "sysctl"));
    facts.yama_scope = 2;
    CHECK_FALSE(mentions(explained(facts), "record -- python"));
}

TEST_CASE("permission: root without the capability, by kind of container") {
    AccessFacts facts = plain();
    facts.own_uid = 0;
    facts.own_user = "root";
    const std::pair<Container, const char*> remedies[] = {
        {Container::kDocker, "docker run --cap-add=SYS_PTRACE"},
        {Container::kPodman, "podman run --cap-add=SYS_PTRACE"},
        {Container::kKubernetes,
         "kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=general -- pyprof"},
        {Container::kOther, "CAP_SYS_PTRACE"},
        {Container::kNone, "CapabilityBoundingSet"}};
    for (const auto& [container, remedy] : remedies) {
        facts.container = container;
        CHECK(mentions(explained(facts), "root has not the capability CAP_SYS_PTRACE"));
        CHECK(mentions(explained(facts), remedy));
    }
    facts.target_uid = 0;  // root's own process needs none
    CHECK(list_obstacles(facts, Access::kRead).empty());
    facts.is_target_dumpable = false;
    CHECK(list_obstacles(facts, Access::kRead).size() == 1);
    facts.is_target_dumpable = true;
    facts.yama_scope = 1;
    CHECK(list_obstacles(facts, Access::kRead).size() == 1);
}

TEST_CASE("permission: a process that may not be dumped, or holds more than we do") {
    AccessFacts facts = plain();
    facts.is_target_dumpable = false;
    CHECK(mentions(explained(facts), "process 123 is protected"));
    facts.is_target_dumpable = true;
    facts.target_has_more_capabilities = true;
    CHECK(mentions(explained(facts), "process 123 is protected"));
    facts.has_ptrace_capability = true;
    CHECK(list_obstacles(facts, Access::kRead).empty());
}

TEST_CASE("permission: a foreign tracer hinders a stop, not a read") {
    AccessFacts facts = plain();
    facts.tracer = 77;
    facts.tracer_name = "gdb";
    CHECK(list_obstacles(facts, Access::kRead).empty());
    CHECK(mentions(explained(facts, Access::kStop), "already traced by gdb (process 77)"));
    CHECK(mentions(explained(facts, Access::kStop), "--nonblocking"));
    facts.tracer_name.clear();
    CHECK(mentions(explained(facts, Access::kStop), "another program (process 77)"));
    facts.has_ptrace_capability = true;
    CHECK(list_obstacles(facts, Access::kStop).size() == 1);
}

TEST_CASE("permission: SELinux is named, also to root") {
    AccessFacts facts = plain();
    facts.selinux_denies_ptrace = true;
    facts.has_ptrace_capability = true;
    CHECK(mentions(explained(facts), "setsebool deny_ptrace 0"));
}

TEST_CASE("permission: AppArmor and seccomp are suspected only where nothing surer is known") {
    AccessFacts facts = plain();
    facts.apparmor_profile = "unconfined";
    CHECK_FALSE(mentions(explained(facts), "AppArmor"));
    facts.apparmor_profile = "docker-default (enforce)";
    CHECK(mentions(explained(facts), "AppArmor profile 'docker-default (enforce)'"));
    CHECK(list_obstacles(facts, Access::kRead).empty());
    facts.apparmor_profile.clear();
    facts.seccomp_mode = 2;
    CHECK(mentions(explained(facts), "seccomp"));
    facts.container = Container::kDocker;
    CHECK(mentions(explained(facts), "--cap-add=SYS_PTRACE"));
    facts.yama_scope = 3;
    CHECK_FALSE(mentions(explained(facts), "seccomp"));
}

TEST_CASE("permission: several obstacles are all listed") {
    AccessFacts facts = plain();
    facts.own_uid = 1001;
    facts.yama_scope = 1;
    facts.tracer = 77;
    facts.selinux_denies_ptrace = true;
    CHECK(list_obstacles(facts, Access::kStop).size() == 4);
    CHECK(list_obstacles(facts, Access::kRead).size() == 3);
}
