// SPDX-License-Identifier: Apache-2.0
//
// Who stands behind sudo.
#include "target/invoking_user.h"

#include <catch2/catch.hpp>

using namespace pyprof;

namespace {

constexpr auto kPasswd =
    "root:x:0:0:root:/root:/bin/bash\nbroken\nalice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh\n";
constexpr auto kGroup =
    "root:x:0:\nalice:x:1000:\naudio:x:29:bob,alice\nalicex:x:30:alicex\nplain:x:31:alice";

}  // namespace

TEST_CASE("invoking user: uid, gid, groups and home") {
    const auto user = invoking_user({"1000", "1000", "alice"}, kPasswd, kGroup);
    REQUIRE(user);
    CHECK(user->run_as.uid == 1000);
    CHECK(user->run_as.gid == 1000);
    CHECK(user->run_as.groups == std::vector<gid_t>{1000, 29, 31});
    CHECK(environment_of(*user) == std::vector<std::pair<std::string, std::string>>{
                                       {"HOME", "/home/alice"}, {"USER", "alice"}, {"LOGNAME", "alice"}});
}

TEST_CASE("invoking user: one that the files do not know keeps what sudo said") {
    const auto user = invoking_user({"2000", "2001", "ldapuser"}, kPasswd, kGroup);
    REQUIRE(user);
    CHECK(user->run_as.groups == std::vector<gid_t>{2001});
    using Variables = std::vector<std::pair<std::string, std::string>>;
    CHECK(environment_of(*user) == Variables{{"HOME", "/"}, {"USER", "ldapuser"}, {"LOGNAME", "ldapuser"}});
    const auto with_home = invoking_user({"2000", "2001", "", "/far/home"}, kPasswd, kGroup);
    REQUIRE(with_home);
    CHECK(environment_of(*with_home) == Variables{{"HOME", "/far/home"}});
}

TEST_CASE("invoking user: root itself and broken variables are nobody") {
    CHECK_FALSE(invoking_user({"0", "0", "root"}, kPasswd, kGroup));
    CHECK_FALSE(invoking_user({"", "", ""}, kPasswd, kGroup));
    CHECK_FALSE(invoking_user({"1000", "", "alice"}, kPasswd, kGroup));
    CHECK_FALSE(invoking_user({"-1", "1000", "alice"}, kPasswd, kGroup));
    CHECK_FALSE(invoking_user({"4294967295", "1000", "alice"}, kPasswd, kGroup));
    CHECK_FALSE(invoking_user({"1000x", "1000", "alice"}, kPasswd, kGroup));
}
