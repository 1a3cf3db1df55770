// SPDX-License-Identifier: Apache-2.0
#include "base/patient_write.h"

#include "base/unique_fd.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

using namespace pyprof;

namespace {

struct Pipe {
    Pipe() {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        reading.reset(ends[0]);
        writing.reset(ends[1]);
    }
    UniqueFd reading;
    UniqueFd writing;
};

}  // namespace

TEST_CASE("patient write: more than a pipe holds arrives whole, also through one that does not block") {
    for (const int flags : {0, O_NONBLOCK}) {
        Pipe pipe;
        REQUIRE(::fcntl(pipe.writing.get(), F_SETFL, flags) == 0);
        const std::string text(300'000, 'x');
        std::string received;
        std::thread reader([&] {
            char buffer[5000];
            for (ssize_t got = 0; (got = ::read(pipe.reading.get(), buffer, sizeof buffer)) > 0;) received.append(buffer, static_cast<std::size_t>(got));
        });
        CHECK(write_all(pipe.writing.get(), text) == 0);
        pipe.writing.reset();
        reader.join();
        CHECK(received == text);
    }
}

TEST_CASE("patient write: a blocked signal ends who waits for a reader") {
    Pipe pipe;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        sigset_t interrupt;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        ::signal(SIGINT, SIG_DFL);
        ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
        ::raise(SIGINT);  // it waits while there is room
        const bool is_written = write_all(pipe.writing.get(), "text") == 0;
        write_all(pipe.writing.get(), std::string(is_written ? 300'000 : 0, 'x'));
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGINT);
    char text[4];
    CHECK(::read(pipe.reading.get(), text, sizeof text) == 4);
}

TEST_CASE("patient write: a reader that has gone and a descriptor that is none are told") {
    ::signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    pipe.reading.reset();
    CHECK(write_all(pipe.writing.get(), "text") == EPIPE);
    CHECK(write_all(-1, "text") == EBADF);
}
