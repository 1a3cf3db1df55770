// SPDX-License-Identifier: Apache-2.0
//
// Where results go: replaced whole, or written in place. Each test works in a directory of its own.
#include "output/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace fs = std::filesystem;
using pyprof::OutputFile;
using pyprof::UniqueFd;

namespace {

class Directory {
public:
    Directory() {
        std::string name = (fs::temp_directory_path() / "pyprof-test-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Directory() { fs::remove_all(path_); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    [[nodiscard]] std::ptrdiff_t entries() const {
        return std::distance(fs::directory_iterator(path_), fs::directory_iterator{});
    }

private:
    fs::path path_;
};

void put(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

std::string content(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

OutputFile open(const std::string& path) {
    auto file = OutputFile::open(path);
    REQUIRE(file.has_value());
    return std::move(*file);
}

OutputFile::Commit commit(OutputFile& file, const std::string& text) {
    const auto result = file.commit([&](std::ostream& out) { out << text; });
    REQUIRE(result.has_value());
    return *result;
}

// Root may write everything, so as root these tests act as nobody for a while.
class Unprivileged {
public:
    explicit Unprivileged(const Directory& directory) {
        if (::geteuid() != 0) return;
        for (const std::string& path : {directory / "", directory / "out.svg"}) {
            REQUIRE(::chown(path.c_str(), kNobody, kNobody) == 0);
        }
        REQUIRE(::seteuid(kNobody) == 0);
        changed_ = true;
    }
    ~Unprivileged() {
        if (changed_) static_cast<void>(::seteuid(0));
    }
    Unprivileged(const Unprivileged&) = delete;
    Unprivileged& operator=(const Unprivileged&) = delete;

private:
    static constexpr uid_t kNobody = 65534;
    bool changed_ = false;
};

mode_t permissions(const std::string& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("output file: a new file appears at the commit, and nothing else stays") {
    const Directory directory;
    {
        OutputFile file = open(directory / "out.svg");
        CHECK_FALSE(fs::exists(directory / "out.svg"));
        CHECK(directory.entries() == 1);
        CHECK(commit(file, "text") == OutputFile::Commit::kWritten);
        CHECK(content(directory / "out.svg") == "text");
        CHECK(directory.entries() == 1);
    }
    CHECK(directory.entries() == 1);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    CHECK(permissions(directory / "out.svg") == (0666 & ~mask));
}

TEST_CASE("output file: without a commit the old content and no temporary file stay") {
    const Directory directory;
    put(directory / "out.svg", "old");
    {
        const OutputFile file = open(directory / "out.svg");
        CHECK(directory.entries() == 2);
    }
    CHECK(directory.entries() == 1);
    CHECK(content(directory / "out.svg") == "old");
}

TEST_CASE("output file: an existing file is replaced and keeps its permissions") {
    const Directory directory;
    put(directory / "out.svg", "old and longer");
    REQUIRE(::chmod((directory / "out.svg").c_str(), 0640) == 0);
    std::ifstream reader(directory / "out.svg");
    OutputFile file = open(directory / "out.svg");
    commit(file, "new");
    CHECK(content(directory / "out.svg") == "new");
    CHECK(permissions(directory / "out.svg") == 0640);
    // Whoever had it open still reads the old one whole.
    CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == "old and longer");
}

TEST_CASE("output file: may be committed several times, each replaces the last") {
    const Directory directory;
    OutputFile file = open(directory / "out.svg");
    commit(file, "first and longer");
    commit(file, "second");
    CHECK(content(directory / "out.svg") == "second");
    fs::remove(directory / "out.svg");
    commit(file, "third");
    CHECK(content(directory / "out.svg") == "third");
    CHECK(directory.entries() == 1);
}

TEST_CASE("output file: a link stays and its target is replaced") {
    const Directory directory;
    fs::create_directory(directory / "sub");
    put(directory / "sub/real.svg", "old");
    fs::create_symlink("sub/middle", directory / "link");
    fs::create_symlink("real.svg", directory / "sub/middle");
    OutputFile file = open(directory / "link");
    commit(file, "new");
    CHECK(fs::is_symlink(directory / "link"));
    CHECK(fs::is_symlink(directory / "sub/middle"));
    CHECK(content(directory / "sub/real.svg") == "new");
    CHECK_FALSE(fs::is_symlink(directory / "sub/real.svg"));
}

TEST_CASE("output file: a link to nothing yet makes its target") {
    const Directory directory;
    fs::create_symlink(directory / "later.svg", directory / "link");
    OutputFile file = open(directory / "link");
    commit(file, "new");
    CHECK(fs::is_symlink(directory / "link"));
    CHECK(content(directory / "later.svg") == "new");
}

TEST_CASE("output file: names at the limit of the file system work") {
    const Directory directory;
    const std::string name(255, 'n');
    OutputFile file = open(directory / name);
    commit(file, "text");
    CHECK(content(directory / name) == "text");
}

TEST_CASE("output file: what can't be opened says so with a reason") {
    const Directory directory;
    fs::create_symlink("loop", directory / "loop");
    fs::create_directory(directory / "sub");
    put(directory / "plain", "");
    const std::string no_file = OutputFile::open(directory / "no/such/out.svg").error().message;
    CHECK_THAT(no_file, Catch::Contains("out.svg") && Catch::Contains("No such file or directory"));
    CHECK_FALSE(OutputFile::open(directory / "no/such/out.svg").error().hint.empty());
    CHECK_THAT(OutputFile::open(directory / "sub").error().message, Catch::Contains("directory"));
    CHECK_FALSE(OutputFile::open(directory / "sub/").has_value());
    CHECK_FALSE(OutputFile::open(directory / "new/").has_value());
    CHECK_FALSE(OutputFile::open(directory / "plain/x").has_value());
    CHECK_FALSE(OutputFile::open(directory / "loop").has_value());
    CHECK_FALSE(OutputFile::open("").has_value());
    CHECK_FALSE(OutputFile::open(directory / std::string(300, 'n')).has_value());
    CHECK(directory.entries() == 3);
}

TEST_CASE("output file: a file without write permission is not replaced") {
    const Directory directory;
    put(directory / "out.svg", "old");
    REQUIRE(::chmod((directory / "out.svg").c_str(), 0444) == 0);
    const Unprivileged nobody(directory);
    const auto file = OutputFile::open(directory / "out.svg");
    REQUIRE_FALSE(file.has_value());
    CHECK_THAT(file.error().message, Catch::Contains("Permission denied"));
    CHECK(directory.entries() == 1);
}

TEST_CASE("output file: a full disk is an error with its reason") {
    OutputFile file = open("/dev/full");
    const auto result = file.commit([](std::ostream& out) { out << "text"; });
    REQUIRE_FALSE(result.has_value());
    CHECK_THAT(result.error().message, Catch::Contains("/dev/full") && Catch::Contains("No space left"));
    CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("output file: a device is written in place and stays one") {
    OutputFile file = open("/dev/null");
    CHECK(commit(file, "text") == OutputFile::Commit::kWritten);
    CHECK(commit(file, std::string(1 << 20, 'x')) == OutputFile::Commit::kWritten);
    CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("output file: a FIFO is written in place, more than it holds at once") {
    const Directory directory;
    REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
    const std::string text(300'000, 'x');
    std::string received;
    std::thread reader([&] { received = content(directory / "fifo"); });
    {
        OutputFile file = open(directory / "fifo");
        CHECK(commit(file, text) == OutputFile::Commit::kWritten);
    }
    reader.join();
    CHECK(received == text);
    CHECK(fs::is_fifo(directory / "fifo"));
    CHECK(directory.entries() == 1);
}

TEST_CASE("output file: a reader that has gone is a quiet end") {
    const auto old_handler = std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd write_end(ends[1]);
    {
        OutputFile file = open("/proc/self/fd/" + std::to_string(write_end.get()));
        ::close(ends[0]);
        CHECK(commit(file, "text") == OutputFile::Commit::kClosedByReader);
        CHECK(commit(file, std::string(1 << 20, 'x')) == OutputFile::Commit::kClosedByReader);
    }
    std::signal(SIGPIPE, old_handler);
}

TEST_CASE("output file: an open descriptor is written through at its position, its file not replaced") {
    const Directory directory;
    const UniqueFd log(::open((directory / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::write(log.get(), "before ", 7) == 7);
    fs::create_symlink("/dev/fd/" + std::to_string(log.get()), directory / "link");
    for (const std::string& path : {"/dev/fd/" + std::to_string(log.get()), directory / "link"}) {
        OutputFile file = open(path);
        commit(file, "text ");
    }
    REQUIRE(::write(log.get(), "after", 5) == 5);
    CHECK(content(directory / "log") == "before text text after");
    CHECK(directory.entries() == 2);
}

TEST_CASE("output file: a dash and /dev/stdout are stdout") {
    const Directory directory;
    const UniqueFd kept(::dup(STDOUT_FILENO));
    {
        const UniqueFd log(::open((directory / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        REQUIRE(::dup2(log.get(), STDOUT_FILENO) == STDOUT_FILENO);
    }
    const bool dash = open("-").commit([](std::ostream& out) { out << "dash "; }).has_value();
    const bool device = open("/dev/stdout").commit([](std::ostream& out) { out << "device"; }).has_value();
    REQUIRE(::dup2(kept.get(), STDOUT_FILENO) == STDOUT_FILENO);
    CHECK(dash);
    CHECK(device);
    CHECK(content(directory / "log") == "dash device");
}

TEST_CASE("output file: moving hands over the temporary file") {
    const Directory directory;
    OutputFile first = open(directory / "first");
    {
        OutputFile second = open(directory / "second");
        second = std::move(first);
        CHECK(directory.entries() == 1);
        commit(second, "text");
    }
    CHECK(content(directory / "first") == "text");
    CHECK(directory.entries() == 1);
}

TEST_CASE("output file: where no file can be made beside it, it is rewritten") {
    const Directory directory;
    put(directory / "out.svg", "old and longer");
    REQUIRE(::chmod((directory / "").c_str(), 0500) == 0);
    const Unprivileged nobody(directory);
    OutputFile file = open(directory / "out.svg");
    CHECK(content(directory / "out.svg") == "old and longer");
    commit(file, "new and long");
    commit(file, "newer");
    CHECK(content(directory / "out.svg") == "newer");
    CHECK(directory.entries() == 1);
    REQUIRE(::chmod((directory / "").c_str(), 0700) == 0);
}
