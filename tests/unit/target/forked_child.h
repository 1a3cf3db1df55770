// SPDX-License-Identifier: Apache-2.0
//
// A child process to be looked at: a fork of the test that runs a function, says when it is ready and
// then answers one byte to each byte. Nothing waits on time but the last resort, a limit of half a minute.
#pragma once

#include "base/unique_fd.h"

#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <functional>

namespace pyprof::test {

class ForkedChild {
public:
    // `prepare` runs in the child before it says that it is ready; `answer` gives the byte for each ping.
    explicit ForkedChild(
        const std::function<void()>& prepare = [] {},
        const std::function<char()>& answer = [] { return 'p'; }) {
        int down[2];
        int up[2];
        REQUIRE(::pipe(down) == 0);
        REQUIRE(::pipe(up) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::close(down[1]);
            ::close(up[0]);
            prepare();
            serve(down[0], up[1], answer);
        }
        ::close(down[0]);
        ::close(up[1]);
        to_child_.reset(down[1]);
        from_child_.reset(up[0]);
        REQUIRE(read_answer() == 'r');
    }
    ~ForkedChild() { end(); }
    ForkedChild(const ForkedChild&) = delete;
    ForkedChild& operator=(const ForkedChild&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }

    void send_ping() const {
        const char byte = '?';
        REQUIRE(::write(to_child_.get(), &byte, 1) == 1);
    }
    // 0 when nothing comes.
    [[nodiscard]] char read_answer() const {
        pollfd poll{from_child_.get(), POLLIN, 0};
        char byte = 0;
        if (::poll(&poll, 1, 30'000) != 1 || ::read(from_child_.get(), &byte, 1) != 1) return 0;
        return byte;
    }
    // Whether it runs: it answers.
    [[nodiscard]] char ping() const {
        send_ping();
        return read_answer();
    }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    // Somebody else has waited for it.
    void forget() { pid_ = 0; }

private:
    [[noreturn]] static void serve(int in, int out, const std::function<char()>& answer) {
        char byte = 'r';
        do {
            if (::write(out, &byte, 1) != 1) ::_exit(0);
            ssize_t got = 0;
            do {
                got = ::read(in, &byte, 1);
            } while (got < 0);
            if (got == 0) ::_exit(0);
            byte = answer();
        } while (true);
    }

    pid_t pid_ = 0;
    UniqueFd to_child_;
    UniqueFd from_child_;
};

}  // namespace pyprof::test
