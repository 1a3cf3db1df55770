// SPDX-License-Identifier: Apache-2.0
//
// The history of the prompt on a real file system: what is kept, what is not, and that nothing foreign is followed.
#include "live/watch_history.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace pyprof;

namespace {

using Lines = std::vector<std::string>;

class TemporaryDirectory {
public:
    TemporaryDirectory() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
    ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_ = "/tmp/pyprof-history-XXXXXX";
};

std::string content(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("watch history: lines come back, those of two sessions in one file") {
    const TemporaryDirectory directory;
    const std::string path = watch_history_path((directory.path() + "/new/state").c_str(), nullptr);
    WatchHistory first(path);
    CHECK(first.load().empty());
    first.add("results");
    first.add("results");  // once
    first.add(" secret");
    first.add("two\nlines");
    WatchHistory second(path);
    CHECK(second.load() == Lines{"results"});
    second.add("add 'Page.*'");
    first.add("status");
    CHECK(WatchHistory(path).load() == Lines{"results", "add 'Page.*'", "status"});
    struct stat found {};
    REQUIRE(::stat(path.c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
}

TEST_CASE("watch history: a file that has grown is cut to its last lines") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/history";
    {
        std::ofstream file(path);
        for (int i = 0; i < 50'000; ++i) file << "add name_" << i << '\n';
    }
    const Lines lines = WatchHistory(path).load();
    CHECK(lines.size() == WatchHistory::kMostLines);
    CHECK(lines.back() == "add name_49999");
    CHECK(content(path).size() < 20 * WatchHistory::kMostLines);
    CHECK(WatchHistory(path).load() == lines);
}

TEST_CASE("watch history: what is no line of text is left out") {
    CHECK(lines_of_history("list\n\x1b[2J\n\xff\n\nstatus") == Lines{"list", "status"});
    CHECK(lines_of_history(std::string(5000, 'x') + "\nlist\n") == Lines{"list"});
    CHECK(lines_of_history("").empty());
}

TEST_CASE("watch history: links, devices and a missing home are left alone") {
    const TemporaryDirectory directory;
    const std::string other = directory.path() + "/other";
    std::ofstream(other) << "list\n";
    const std::string link = directory.path() + "/history";
    REQUIRE(::symlink(other.c_str(), link.c_str()) == 0);
    WatchHistory history(link);
    CHECK(history.load().empty());
    history.add("status");
    CHECK(content(other) == "list\n");
    WatchHistory nowhere(watch_history_path(nullptr, nullptr));
    nowhere.add("status");
    CHECK(nowhere.load().empty());
    WatchHistory("/proc/pyprof/history").add("status");
}

TEST_CASE("watch history: where it is") {
    CHECK(watch_history_path("/s", "/home/me") == "/s/pyprof/watch_history");
    CHECK(watch_history_path("relative", "/home/me") == "/home/me/.local/state/pyprof/watch_history");
    CHECK(watch_history_path("", "/home/me") == "/home/me/.local/state/pyprof/watch_history");
    CHECK(watch_history_path(nullptr, "").empty());
}
