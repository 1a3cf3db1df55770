// SPDX-License-Identifier: Apache-2.0
#include "target/write_back.h"

#include "forked_child.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace pyprof;
using namespace pyprof::test;

namespace {

// In the child as in us: a fork has the same addresses.
volatile std::int32_t depth = 0;
volatile std::uint64_t guard = 7;

Address address_of(const volatile void* object) { return Address{reinterpret_cast<std::uintptr_t>(object)}; }

WriteBack::Word word_of_depth() {
    WriteBack::Word word;
    word.address = address_of(&depth);
    word.after = 8;
    word.guards[0] = {address_of(&guard), 7};
    return word;
}

char shown() { return static_cast<char>('0' + depth); }

char ask(const ForkedChild& child) {
    child.send_ping();
    return child.read_answer();
}

}  // namespace

TEST_CASE("write_back: a word is set, and put back by request or at the end") {
    const ForkedChild child([] {}, shown);
    {
        auto writer = WriteBack::start(child.pid());
        REQUIRE(writer);
        CHECK(writer->put(word_of_depth()) == WriteBack::Outcome::kDone);
        CHECK(ask(child) == '8');
        CHECK(writer->undo(word_of_depth()) == WriteBack::Outcome::kDone);
        CHECK(ask(child) == '0');
        CHECK(writer->put(word_of_depth()) == WriteBack::Outcome::kDone);
        CHECK(ask(child) == '8');
    }
    CHECK(ask(child) == '0');
}

TEST_CASE("write_back: what is not as it should be is left alone") {
    const ForkedChild child([] {}, shown);
    auto writer = WriteBack::start(child.pid());
    REQUIRE(writer);
    WriteBack::Word word = word_of_depth();
    word.before = 3;
    CHECK(writer->put(word) == WriteBack::Outcome::kChanged);
    word = word_of_depth();
    word.guards[1] = {address_of(&guard), 8};
    CHECK(writer->put(word) == WriteBack::Outcome::kGone);
    word.address = Address{4096};
    CHECK(writer->put(word) == WriteBack::Outcome::kGone);
    CHECK(writer->undo(word_of_depth()) == WriteBack::Outcome::kChanged);
    CHECK(ask(child) == '0');
}

TEST_CASE("write_back: when the writer is killed the word is put back all the same") {
    const ForkedChild child([] {}, shown);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t writing = ::fork();
    REQUIRE(writing >= 0);
    if (writing == 0) {
        auto writer = WriteBack::start(child.pid());
        const bool is_put = writer && writer->put(word_of_depth()) == WriteBack::Outcome::kDone;
        const char told = is_put ? '+' : '-';
        [[maybe_unused]] const ssize_t sent = ::write(ends[1], &told, 1);
        while (true) ::pause();
    }
    char told = 0;
    REQUIRE(::read(ends[0], &told, 1) == 1);
    REQUIRE(told == '+');
    CHECK(ask(child) == '8');
    ::kill(writing, SIGKILL);
    ::waitpid(writing, nullptr, 0);
    while (ask(child) == '8') ::usleep(1000);
    CHECK(ask(child) == '0');
    ::close(ends[0]);
    ::close(ends[1]);
}
