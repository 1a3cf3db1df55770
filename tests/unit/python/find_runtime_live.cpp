// SPDX-License-Identifier: Apache-2.0
//
// The search in real interpreters that hide: under another name, deleted, replaced, and seen by somebody
// without rights. Skipped where the machine has no /usr/bin/python3.
#include "python/find_runtime.h"
#include "python/python_children.h"
#include "target/launch.h"
#include "target/live_target.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>

using namespace pyprof;
namespace fs = std::filesystem;

namespace {

constexpr auto kPython = "/usr/bin/python3";

bool has_python() {
    if (fs::exists(kPython)) return true;
    WARN("skipped: no " << kPython);
    return false;
}

// A directory that everybody may look into, with a FIFO through which programs say that they are ready.
class Stage {
public:
    Stage() {
        std::string name = (fs::temp_directory_path() / "pyprof-hidden-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
        fs::permissions(path_, fs::perms(0755));
        REQUIRE(::mkfifo((path_ / "ready").c_str(), 0622) == 0);
        REQUIRE(::chmod((path_ / "ready").c_str(), 0622) == 0);
        ready_.reset(::open((path_ / "ready").c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(ready_);
    }
    ~Stage() {
        if (launch_) {
            launch_->send(SIGKILL);
            launch_->wait();
        }
        fs::remove_all(path_);
    }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    [[nodiscard]] std::string path(const char* name) const { return (path_ / name).string(); }
    // Says that it is ready and then waits for a signal.
    [[nodiscard]] std::string program() const {
        return fmt::format("import signal; f = open('{}', 'w'); f.write('x'); f.close(); signal.pause()",
                           path("ready"));
    }
    pid_t start(std::vector<std::string> command, std::optional<RunAs> who = {}) {
        LaunchRequest request;
        request.command = std::move(command);
        request.run_as = std::move(who);
        auto launch = Launch::start(request);
        REQUIRE(launch);
        launch_.emplace(std::move(*launch));
        pollfd poll{ready_.get(), POLLIN, 0};
        REQUIRE(::poll(&poll, 1, 30'000) == 1);
        return launch_->pid();
    }

private:
    fs::path path_;
    UniqueFd ready_;
    std::optional<Launch> launch_;
};

// How it was found, or what went wrong.
std::string how_found(pid_t pid) {
    auto target = open_live_target(pid);
    if (!target) return target.error().message;
    const auto found = find_runtime(**target);
    if (!found) return found.error().message;
    if (!found->is_initialised || major_of(found->version_hex) != 3) return "found, but wrong";
    return found->how;
}

// The same in a process of nobody's, for whom /proc/PID/map_files is closed.
std::string how_found_by_nobody(pid_t pid) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool is_nobody = ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0;
        const std::string how = is_nobody ? how_found(pid) : "not nobody";
        ::_exit(::write(ends[1], how.data(), how.size()) < 0 ? 1 : 0);
    }
    ::close(ends[1]);
    char text[512];
    const ssize_t length = ::read(ends[0], text, sizeof text);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

}  // namespace

TEST_CASE("find runtime live: an interpreter of another name, then deleted, then replaced") {
    if (!has_python()) return;
    Stage stage;
    const std::string foo = stage.path("foo");
    fs::copy_file(kPython, foo);
    const bool is_root = ::getuid() == 0;
    const auto who = is_root ? std::optional(RunAs{65534, 65534, {}}) : std::nullopt;
    const pid_t pid = stage.start({foo, "-c", stage.program()}, who);
    const auto check_both = [&] {
        CHECK(how_found(pid) == "symbol _PyRuntime");
        if (is_root) CHECK(how_found_by_nobody(pid) == "symbol _PyRuntime");
    };
    check_both();
    fs::remove(foo);
    check_both();
    fs::copy_file("/bin/true", foo);
    check_both();
    if (!is_root) WARN("skipped in part: only root can become nobody");
}

TEST_CASE("find runtime live: a shell with an interpreter below it is not Python, and says which is") {
    if (!has_python()) return;
    Stage stage;
    const pid_t pid = stage.start(
        {"sh", "-c", fmt::format("exec 2>/dev/null; {} -c \"{}\"; true", kPython, stage.program())});
    const auto target = open_live_target(pid);
    REQUIRE(target);
    const auto children = (*target)->read_descendants();
    REQUIRE(children.size() == 1);
    const auto found = find_runtime(**target);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ExitCode::kNotPython);
    CHECK(found.error().message.find("is not a Python process") != std::string::npos);
    CHECK(found.error().hint.find(fmt::format("process {} below it", children[0].pid)) == 0);
    CHECK(found.error().hint.find(fmt::format("use --pid {}", children[0].pid)) != std::string::npos);
    CHECK(how_found(children[0].pid) == "symbol _PyRuntime");
    ::kill(children[0].pid, SIGKILL);
}

TEST_CASE("find runtime live: an interpreter of another name below a shell is known by its symbol, other programs are not") {
    if (!has_python()) return;
    Stage stage;
    const std::string foo = stage.path("foo");
    fs::copy_file(fs::canonical(kPython), foo);
    const pid_t pid = stage.start({"sh", "-c", fmt::format("exec 2>/dev/null; sleep 60 & {} -c \"{}\"; true", foo, stage.program())});
    const auto children = read_descendants_of(pid);
    REQUIRE(children.size() == 2);
    const ProcessFacts& sleeper = children[0].executable == foo ? children[1] : children[0];
    const ProcessFacts& python = children[0].executable == foo ? children[0] : children[1];
    CHECK(python.executable == foo);
    PythonChildren looker;
    CHECK(looker.is_python(python, true));
    CHECK_FALSE(looker.is_python(python, false));
    CHECK_FALSE(looker.is_python(sleeper, true));
    const auto target = open_live_target(pid);
    REQUIRE(target);
    const auto found = find_runtime(**target);
    REQUIRE_FALSE(found);
    CHECK(found.error().hint.find(fmt::format("process {} below it is one (foo -c", python.pid)) == 0);
    for (const ProcessFacts& child : children) ::kill(child.pid, SIGKILL);
}
