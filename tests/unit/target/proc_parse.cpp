// SPDX-License-Identifier: Apache-2.0
//
// The texts of /proc, the odd ones above all. Samples are as Linux 6.1 prints them.
#include "target/proc_parse.h"

#include <catch2/catch.hpp>

using namespace pyprof;

TEST_CASE("maps: a mapped file, an anonymous one and a special one") {
    const auto maps = parse_maps(
        "55d0c0a00000-55d0c0a2b000 r--p 00001000 fe:01 1234567                    /usr/bin/python3.11\n"
        "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
        "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
    REQUIRE(maps.size() == 4);
    CHECK(maps[0].start == Address{0x55d0c0a00000});
    CHECK(maps[0].end == Address{0x55d0c0a2b000});
    CHECK(maps[0].file_offset == 0x1000);
    CHECK(maps[0].device == (std::uint64_t{0xfe} << 32 | 1));
    CHECK(maps[0].inode == 1234567);
    CHECK(maps[0].readable);
    CHECK_FALSE(maps[0].writable);
    CHECK_FALSE(maps[0].executable);
    CHECK(maps[0].path == "/usr/bin/python3.11");
    CHECK(maps[1].path.empty());
    CHECK(maps[1].writable);
    CHECK(maps[2].path == "[stack]");
    CHECK(maps[3].executable);
    CHECK_FALSE(maps[3].readable);
    CHECK(maps[3].end == Address{0xffffffffff601000});
}

TEST_CASE("maps: blanks, newlines and deletion in paths") {
    const auto maps = parse_maps(
        "1000-2000 r-xp 00000000 08:01 5 /opt/my app/lib python.so\n"
        "2000-3000 r-xp 00000000 08:01 6 /tmp/a\\012b\\012\n"
        "3000-4000 r-xp 00000000 08:01 7 /tmp/foo (deleted)\n"
        "4000-5000 rw-s 00000000 00:01 8 /memfd:jit cache (deleted)\n"
        "5000-6000 r-xp 00000000 08:01 9 /tmp/back\\slash");
    REQUIRE(maps.size() == 5);
    CHECK(maps[0].path == "/opt/my app/lib python.so");
    CHECK(maps[1].path == "/tmp/a\nb\n");
    CHECK(maps[2].path == "/tmp/foo");
    CHECK(maps[2].deleted);
    CHECK(maps[3].path == "/memfd:jit cache");
    CHECK(maps[3].deleted);
    CHECK(maps[4].path == "/tmp/back\\slash");
    CHECK_FALSE(maps[4].deleted);
}

TEST_CASE("maps: lines that are not mappings are left out") {
    const auto maps = parse_maps(
        "\n"
        "garbage\n"
        "2000-1000 r-xp 00000000 08:01 5 /end/before/start\n"
        "1000-2000 r-x\n"
        "1000-2000 r-xp 00000000 08:01\n"
        "11111111111111111-2000 r-xp 00000000 08:01 5 /too/large\n"
        "1000-2000 r-xp 00000000 08:01 5 /good\n"
        "3000-40");
    REQUIRE(maps.size() == 1);
    CHECK(maps[0].path == "/good");
}

TEST_CASE("stat: names may hold brackets, blanks and newlines") {
    const std::string tail =
        " S 12 34 34 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 987654 1000 200 18446744073709551615 1 1 0 0 0 "
        "0";
    const auto stat = parse_stat("77 (a) R (b\n)" + tail);
    REQUIRE(stat);
    CHECK(stat->name == "a) R (b\n");
    CHECK(stat->state == 'S');
    CHECK(stat->parent == 12);
    CHECK(stat->thread_count == 3);
    CHECK(stat->start_ticks == 987654);
    CHECK(parse_state_letter("77 (a) R (b\n)" + tail) == 'S');
    CHECK(parse_state_letter("1 (x) t 1") == 't');
}

TEST_CASE("stat: what is cut short is nothing") {
    for (const char* text :
         {"", "77", "77 (a", "77 (a)", "77 (a) ", "77 (a) S", "77 (a) S 1 2 3", ")(", ") S 1"}) {
        INFO(text);
        CHECK_FALSE(parse_stat(text));
    }
    CHECK(parse_state_letter("77 (a)") == '\0');
    CHECK(parse_state_letter("") == '\0');
}

TEST_CASE("status: ids, tracer, namespaces and capabilities") {
    const auto status = parse_status(
        "Name:\tpy\\nthon\nUmask:\t0022\nState:\tS "
        "(sleeping)\nTgid:\t77\nNgid:\t0\nPid:\t78\nPPid:\t1\nTracerPid:\t9\n"
        "Uid:\t1000\t1001\t1002\t1003\nGid:\t100\t101\t102\t103\nFDSize:\t64\nNSpid:\t78\t12\t3\n"
        "CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000080000\nSeccomp:\t2\n");
    REQUIRE(status);
    CHECK(status->thread_group == 77);
    CHECK(status->parent == 1);
    CHECK(status->tracer == 9);
    CHECK(status->effective_uid == 1001);
    CHECK(status->effective_gid == 101);
    CHECK(status->namespace_ids == std::vector<pid_t>{78, 12, 3});
    CHECK(status->permitted_capabilities == 0x1ffffffffff);
    CHECK(status->effective_capabilities == 0x80000);
    CHECK(status->seccomp_mode == 2);
}

TEST_CASE("status: a text without a thread group is nothing, missing lines are defaults") {
    CHECK_FALSE(parse_status(""));
    CHECK_FALSE(parse_status("Name:\tx\nTgid:\tnone\n"));
    const auto status = parse_status("Tgid:\t5");
    REQUIRE(status);
    CHECK(status->namespace_ids.empty());
    CHECK(status->tracer == 0);
    std::string deep = "Tgid:\t5\nNSpid:";
    for (int i = 0; i < 1000; ++i) deep += "\t7";
    CHECK(parse_status(deep)->namespace_ids.size() <= 33);
}

TEST_CASE("syscall: running, blocked in a call, blocked outside one") {
    CHECK(parse_syscall("running\n").kind == Activity::Kind::kRunning);

    const Activity call =
        parse_syscall("202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7f1234567000 0x7f0000001000\n");
    CHECK(call.kind == Activity::Kind::kBlocked);
    CHECK(call.syscall == 202);
    CHECK(call.arguments[0] == 0x7f01);
    CHECK(call.arguments[5] == 0xffffffff);
    CHECK(call.stack_pointer == Address{0x7f1234567000});
    CHECK(call.program_counter == Address{0x7f0000001000});

    const Activity fault = parse_syscall("-1 0x7f1234567000 0x7f0000001000\n");
    CHECK(fault.kind == Activity::Kind::kBlocked);
    CHECK(fault.syscall == -1);
    CHECK(fault.stack_pointer == Address{0x7f1234567000});
}

TEST_CASE("syscall: other texts are unknown") {
    for (const char* text : {"", "\n", "run", "202", "202 0x1 0x2", "-1", "-1 0x1", "x 0x1 0x2",
                             "202 1 2 3 4 5 6 7 8", "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 "}) {
        INFO(text);
        CHECK(parse_syscall(text).kind == Activity::Kind::kUnknown);
    }
}

TEST_CASE("schedstat: the third number") {
    CHECK(parse_switch_count("123456789 42 77\n") == 77U);
    CHECK(parse_switch_count("0 0 18446744073709551615\n") == 18446744073709551615U);
    for (const char* text : {"", "1", "1 2", "1 2 x", "1 2 18446744073709551616"}) {
        INFO(text);
        CHECK_FALSE(parse_switch_count(text));
    }
}

TEST_CASE("cmdline: arguments end in NUL, empty ones count") {
    using namespace std::string_literals;
    CHECK(parse_command_line("python3\0-c\0\0x y\0"s) ==
          std::vector<std::string>{"python3", "-c", "", "x y"});
    CHECK(parse_command_line("renamed itself"s) == std::vector<std::string>{"renamed itself"});
    CHECK(parse_command_line(""s).empty());
}

TEST_CASE("children: numbers until something else comes") {
    CHECK(parse_children("12 34 56 ") == std::vector<pid_t>{12, 34, 56});
    CHECK(parse_children("").empty());
    CHECK(parse_children("12 x 34") == std::vector<pid_t>{12});
}
