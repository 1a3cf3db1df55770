// SPDX-License-Identifier: Apache-2.0
//
// What was recorded comes back as it was, and damaged files are refused.
#include "target/snapshot.h"

#include "forked_child.h"
#include "target/live_target.h"
#include "target/recording_target.h"
#include "target/snapshot_target.h"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

using namespace pyprof;
using pyprof::test::ForkedChild;

namespace {

std::array<std::uint64_t, 4> known_words{};

Address address_of(const void* place) {
    return Address{reinterpret_cast<std::uint64_t>(place)};
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

Snapshot small_snapshot() {
    Snapshot snapshot;
    snapshot.pid = 7;
    snapshot.facts = {7, {"python3", "", "a b"}, "/usr/bin/python3", "/tmp"};
    Mapping mapping;
    mapping.start = Address{0x1000};
    mapping.end = Address{0x3000};
    mapping.file_offset = 0x2000;
    mapping.device = 5;
    mapping.inode = 6;
    mapping.readable = mapping.executable = mapping.deleted = true;
    mapping.path = "/lib/x y\n";
    snapshot.mappings = {mapping};
    snapshot.threads = {{7, 1}, {8, 2}};
    ThreadAnswers answers;
    answers.activity.kind = Activity::Kind::kBlocked;
    answers.activity.syscall = -1;
    answers.activity.arguments[5] = 99;
    answers.activity.stack_pointer = Address{0xffff};
    answers.switch_count = 0;
    answers.state_letter = 'D';
    answers.name = "main";
    snapshot.thread_answers[8] = answers;
    ModuleAnswers module;
    module.mapping = mapping;
    module.build_id = "abcd";
    module.segments = {{FileAddress{0x400}, 1, 2, 3, true}};
    module.sections[".PyRuntime"] = std::nullopt;
    module.symbols["_PyRuntime"] = ModuleFile::Section{FileAddress{0x500}, 16};
    snapshot.modules = {module};
    REQUIRE(snapshot.memory.add(Address{4090}, bytes_of("twelve bytes")));  // across a page border
    return snapshot;
}

}  // namespace

TEST_CASE("snapshot: every answer survives the file") {
    auto decoded = decode_snapshot(encode_snapshot(small_snapshot()));
    REQUIRE(decoded);
    SnapshotTarget target(std::move(*decoded));
    CHECK(target.pid() == 7);
    const auto facts = target.read_facts();
    CHECK(facts->command == std::vector<std::string>{"python3", "", "a b"});
    CHECK(facts->executable == "/usr/bin/python3");
    CHECK(facts->working_directory == "/tmp");
    const auto mappings = target.read_mappings();
    REQUIRE(mappings->size() == 1);
    const Mapping& mapping = mappings->front();
    CHECK(mapping.start == Address{0x1000});
    CHECK(mapping.end == Address{0x3000});
    CHECK(mapping.file_offset == 0x2000);
    CHECK(mapping.device == 5);
    CHECK(mapping.inode == 6);
    CHECK(mapping.readable);
    CHECK_FALSE(mapping.writable);
    CHECK(mapping.executable);
    CHECK(mapping.deleted);
    CHECK(mapping.path == "/lib/x y\n");
    CHECK(*target.read_threads() == std::vector<ThreadId>{{7, 1}, {8, 2}});
    const Activity activity = target.read_activity(8);
    CHECK(activity.kind == Activity::Kind::kBlocked);
    CHECK(activity.syscall == -1);
    CHECK(activity.arguments[5] == 99);
    CHECK(activity.stack_pointer == Address{0xffff});
    CHECK(target.read_switch_count(8) == 0U);
    CHECK(target.read_state_letter(8) == 'D');
    CHECK(target.read_thread_name(8) == "main");
    const auto module = target.open_module(mapping);
    REQUIRE(module);
    CHECK((*module)->build_id() == "abcd");
    CHECK((*module)->load_segments().at(0).memory_size == 3);
    CHECK((*module)->load_segments().at(0).writable);
    CHECK((*module)->find_symbol("_PyRuntime")->address == FileAddress{0x500});
    CHECK_FALSE((*module)->find_section(".PyRuntime"));
    CHECK_FALSE((*module)->find_symbol("never asked"));
    CHECK(target.stop());
    CHECK_FALSE(target.has_ended());
}

TEST_CASE("snapshot: what was not recorded is absent") {
    SnapshotTarget target(small_snapshot());
    CHECK(target.read_activity(99).kind == Activity::Kind::kGone);
    CHECK_FALSE(target.read_switch_count(99));
    CHECK_FALSE(target.open_module(Mapping{}));
}

TEST_CASE("snapshot: memory reads whole or not at all, and the last bytes seen win") {
    SnapshotTarget target(small_snapshot());
    std::array<std::byte, 12> text{};
    REQUIRE(read_bytes(target.memory(), Address{4090}, text));
    CHECK(std::vector<std::byte>(text.begin(), text.end()) == bytes_of("twelve bytes"));
    CHECK_FALSE(read_bytes(target.memory(), Address{4091}, text));
    CHECK_FALSE(read_bytes(target.memory(), Address{4089}, text));
    CHECK_FALSE(read_bytes(target.memory(), Address{~std::uint64_t{0} - 4}, text));

    PageStore store;
    CHECK(store.add(Address{10}, bytes_of("aaaa")));
    CHECK(store.add(Address{12}, bytes_of("bbbb")));
    std::array<std::byte, 6> six{};
    REQUIRE(store.read(Address{10}, six));
    CHECK(std::vector<std::byte>(six.begin(), six.end()) == bytes_of("aabbbb"));
    CHECK_FALSE(store.add(Address{~std::uint64_t{0}}, bytes_of("xx")));
}

TEST_CASE("snapshot: files of another kind, another version or cut short are refused") {
    CHECK_FALSE(decode_snapshot({}));
    CHECK(decode_snapshot(bytes_of("not a snapshot at all")).error().message.find("not a snapshot") !=
          std::string::npos);
    auto file = encode_snapshot(small_snapshot());
    for (std::size_t size = 0; size < file.size(); ++size) {
        CHECK_FALSE(decode_snapshot(std::span(file).first(size)));
    }
    file[8] = std::byte{2};
    const auto newer = decode_snapshot(file);
    REQUIRE_FALSE(newer);
    CHECK(newer.error().message.find("format 2") != std::string::npos);
}

TEST_CASE("snapshot: hostile lengths and kinds are refused, unknown records passed over") {
    const auto is_good = [](std::vector<unsigned> numbers) {
        std::vector<std::byte> bytes;
        for (const unsigned number : numbers) bytes.push_back(static_cast<std::byte>(number));
        return decode_snapshot_records(bytes).has_value();
    };
    CHECK(is_good({}));
    CHECK(is_good({200, 1, 0, 0, 0, 0, 0, 0, 0, 42}));
    CHECK_FALSE(is_good({200, 255, 255, 255, 255, 255, 255, 255, 255}));
    CHECK_FALSE(is_good({3, 0, 0, 0, 0, 0, 0, 0, 0}));  // a thread without numbers
    CHECK_FALSE(is_good({6, 12, 0, 0, 0, 0, 0, 0, 0,    // memory: more bytes than there are
                         0, 0,  0, 0, 0, 0, 0, 0, 255, 255, 0, 0}));
    CHECK_FALSE(is_good({6,   13,  0,   0,   0,   0,   0,   0,   0,  // memory that wraps around
                         255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 0, 7}));
}

TEST_CASE("snapshot: a recording of a live child gives the same answers afterwards") {
    const std::string path = (std::filesystem::temp_directory_path() / "pyprof-test.snap").string();
    std::string executable;
    Mapping first;
    {
        const ForkedChild child([] { known_words = {1, 2, 3, 4}; });
        auto live = open_live_target(child.pid());
        REQUIRE(live);
        RecordingTarget recording(**live);
        executable = recording.read_facts()->executable;
        const auto mappings = recording.read_mappings();
        REQUIRE(mappings);
        CHECK(read_value<std::uint64_t>(recording.memory(), address_of(&known_words[1])) == 2U);
        CHECK_FALSE(read_value<std::uint64_t>(recording.memory(), kNullAddress));
        CHECK(recording.memory().counters().calls > 0);
        REQUIRE(recording.read_threads());
        CHECK(recording.read_state_letter(child.pid()) != '\0');
        const auto own = std::find_if(mappings->begin(), mappings->end(),
                                      [&](const Mapping& m) { return m.path == executable; });
        REQUIRE(own != mappings->end());
        first = *own;
        const auto module = recording.open_module(first);
        REQUIRE(module);
        CHECK((*module)->find_symbol("main"));
        CHECK_FALSE((*module)->find_section(".nothing"));
        REQUIRE(write_snapshot(recording.snapshot(), path));
    }
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);

    const auto target = open_snapshot(path);
    REQUIRE(target);
    CHECK((*target)->read_facts()->executable == executable);
    CHECK(read_value<std::uint64_t>((*target)->memory(), address_of(&known_words[1])) == 2U);
    CHECK_FALSE(read_value<std::uint64_t>((*target)->memory(), address_of(&known_words[2])));  // never read
    const auto module = (*target)->open_module(first);
    REQUIRE(module);
    CHECK((*module)->find_symbol("main"));
    std::filesystem::remove(path);
}

TEST_CASE("snapshot: files that can't be read or written are named") {
    CHECK(open_snapshot("/nonexistent/x.snap").error().message.find("/nonexistent/x.snap") !=
          std::string::npos);
    CHECK(
        write_snapshot(small_snapshot(), "/nonexistent/x.snap").error().message.find("/nonexistent/x.snap") !=
        std::string::npos);
    CHECK_FALSE(open_snapshot("/"));
}
