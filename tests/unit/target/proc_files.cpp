// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc read whole, and the ones that are kept open.
#include "target/proc_files.h"

#include "forked_child.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <cerrno>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

std::size_t open_descriptors() {
    return list_numbers_at(AT_FDCWD, "/proc/self/fd").value().size();
}

}  // namespace

TEST_CASE("proc files: whole files, cut files, links and lists") {
    CHECK(read_file_at(AT_FDCWD, "/proc/self/comm").value().size() > 1);
    CHECK(read_file_at(AT_FDCWD, "/dev/zero", 100'000).value().size() == 100'000);
    CHECK(read_file_at(AT_FDCWD, "/dev/null").value().empty());
    CHECK(read_file_at(AT_FDCWD, "/nonexistent").error() == ENOENT);
    CHECK(read_file_at(AT_FDCWD, "/proc").error() == EISDIR);
    CHECK(read_link_at(AT_FDCWD, "/proc/self").value() == std::to_string(::getpid()));
    CHECK(read_link_at(AT_FDCWD, "/proc").error() == EINVAL);
    CHECK(list_numbers_at(AT_FDCWD, "/proc/self/task").value() == std::vector<pid_t>{::getpid()});
    CHECK(list_numbers_at(AT_FDCWD, "/proc/self/comm").error() == ENOTDIR);
}

TEST_CASE("proc files: a thread's files are kept open up to the limit, and closed when forgotten") {
    const ForkedChild child;
    const auto directory = open_at(AT_FDCWD, fmt::format("/proc/{}", child.pid()), O_PATH | O_DIRECTORY);
    REQUIRE(directory);
    const std::size_t before = open_descriptors();
    ThreadFiles files(directory->get(), 2);
    for (int i = 0; i < 3; ++i) {
        CHECK(files.read_activity(child.pid()).kind != Activity::Kind::kGone);
        CHECK(files.read_state_letter(child.pid()) != '\0');
        CHECK(files.read_switch_count(child.pid()));
        CHECK(open_descriptors() == before + 2);
    }
    files.forget(child.pid());
    CHECK(open_descriptors() == before);
    files.forget(child.pid());
    CHECK(files.read_state_letter(child.pid()) != '\0');
    CHECK(open_descriptors() == before + 1);
}
