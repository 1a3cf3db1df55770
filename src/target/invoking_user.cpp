// SPDX-License-Identifier: Apache-2.0
//
// passwd(5): name:password:uid:gid:text:home:shell. group(5): name:password:gid:user,user.
#include "target/invoking_user.h"

#include "base/parse.h"
#include "target/proc_files.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

namespace pyprof {
namespace {

constexpr std::size_t kFileLimit = 4 << 20;
constexpr std::size_t kMostGroups = 65536;  // NGROUPS_MAX

// Takes what stands before the first `end` off `text`, and that as well.
std::string_view take_until(std::string_view& text, char end) {
    const std::string_view part = text.substr(0, text.find(end));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    return part;
}

template <std::size_t N>
std::array<std::string_view, N> split_line(std::string_view line) {
    std::array<std::string_view, N> fields;
    for (std::string_view& field : fields) field = take_until(line, ':');
    return fields;
}

// All bits set means "leave it" to setresuid, so it is no id.
std::optional<std::uint32_t> parse_id(std::string_view text) {
    const auto number = parse_unsigned(text);
    if (!number || *number >= std::numeric_limits<std::uint32_t>::max()) return {};
    return static_cast<std::uint32_t>(*number);
}

bool lists(std::string_view members, std::string_view name) {
    while (!members.empty()) {
        if (take_until(members, ',') == name) return true;
    }
    return false;
}

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : value;
}

}  // namespace

std::optional<InvokingUser> invoking_user(const SudoVariables& sudo, std::string_view passwd,
                                          std::string_view group) {
    const auto uid = parse_id(sudo.uid);
    const auto gid = parse_id(sudo.gid);
    if (!uid || !gid || *uid == 0) return {};
    InvokingUser user{{*uid, *gid, {*gid}}, std::string(sudo.user), std::string(sudo.home)};
    while (!passwd.empty()) {
        const auto fields = split_line<6>(take_until(passwd, '\n'));
        if (parse_id(fields[2]) != uid) continue;
        user.name = fields[0];
        user.home = fields[5];
        break;
    }
    if (user.home.empty()) user.home = "/";
    while (!group.empty() && user.run_as.groups.size() < kMostGroups && !user.name.empty()) {
        const auto fields = split_line<4>(take_until(group, '\n'));
        const auto id = parse_id(fields[2]);
        if (id && *id != *gid && lists(fields[3], user.name)) user.run_as.groups.push_back(*id);
    }
    return user;
}

std::optional<InvokingUser> find_invoking_user() {
    if (::geteuid() != 0) return {};
    const std::string passwd = read_file_at(AT_FDCWD, "/etc/passwd", kFileLimit).value_or(std::string());
    const std::string group = read_file_at(AT_FDCWD, "/etc/group", kFileLimit).value_or(std::string());
    return invoking_user({variable("SUDO_UID"), variable("SUDO_GID"), variable("SUDO_USER"), variable("SUDO_HOME")}, passwd, group);
}

std::optional<FileOwner> invoking_owner() {
    const auto user = find_invoking_user();
    if (!user) return {};
    return FileOwner{user->run_as.uid, user->run_as.gid};
}

std::vector<std::pair<std::string, std::string>> environment_of(const InvokingUser& user) {
    std::vector<std::pair<std::string, std::string>> variables;
    variables.emplace_back("HOME", user.home);
    if (!user.name.empty()) {
        variables.emplace_back("USER", user.name);
        variables.emplace_back("LOGNAME", user.name);
    }
    return variables;
}

}  // namespace pyprof
