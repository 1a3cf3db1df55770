// SPDX-License-Identifier: Apache-2.0
//
// One pair of functions a record, kept next to each other: what one puts, the other takes.
#include "target/snapshot.h"

#include "base/byte_stream.h"
#include "base/unique_fd.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace pyprof {
namespace {

constexpr std::string_view kMagic = "PYPROFSN";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMostRecordBytes = std::size_t{1} << 30;  // all of them, unpacked
constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

enum class Tag : std::uint8_t { kFacts = 1, kMapping, kThread, kThreadAnswers, kModule, kMemory };

std::uint64_t as_unsigned(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
}
pid_t take_pid(ByteReader& in) {
    return static_cast<pid_t>(in.take<std::uint32_t>());
}
void put_pid(ByteWriter& out, pid_t pid) {
    out.put(static_cast<std::uint32_t>(pid));
}

// A count of things that take at least one byte each is bounded by what is left: the reader fails first.
template <class Take>
void take_list(ByteReader& in, Take&& take_one) {
    for (auto left = in.take<std::uint32_t>(); left > 0 && !in.has_failed(); --left) take_one();
}

void put_facts(ByteWriter& out, const Snapshot& snapshot) {
    put_pid(out, snapshot.pid);
    put_pid(out, snapshot.facts.pid);
    out.put(static_cast<std::uint32_t>(snapshot.facts.command.size()));
    for (const std::string& argument : snapshot.facts.command) out.put_text(argument);
    out.put_text(snapshot.facts.executable);
    out.put_text(snapshot.facts.working_directory);
}

void take_facts(ByteReader& in, Snapshot& snapshot) {
    snapshot.pid = take_pid(in);
    snapshot.facts.pid = take_pid(in);
    snapshot.facts.command.clear();
    take_list(in, [&] { snapshot.facts.command.push_back(in.take_text()); });
    snapshot.facts.executable = in.take_text();
    snapshot.facts.working_directory = in.take_text();
}

void put_mapping(ByteWriter& out, const Mapping& mapping) {
    for (const std::uint64_t number :
         {raw(mapping.start), raw(mapping.end), mapping.file_offset, mapping.device, mapping.inode}) {
        out.put(number);
    }
    const int flags = (mapping.readable ? 1 : 0) | (mapping.writable ? 2 : 0) | (mapping.executable ? 4 : 0) |
                      (mapping.deleted ? 8 : 0);
    out.put(static_cast<std::uint8_t>(flags));
    out.put_text(mapping.path);
}

Mapping take_mapping(ByteReader& in) {
    Mapping mapping;
    mapping.start = Address{in.take<std::uint64_t>()};
    mapping.end = Address{in.take<std::uint64_t>()};
    mapping.file_offset = in.take<std::uint64_t>();
    mapping.device = in.take<std::uint64_t>();
    mapping.inode = in.take<std::uint64_t>();
    const auto flags = in.take<std::uint8_t>();
    mapping.readable = (flags & 1) != 0;
    mapping.writable = (flags & 2) != 0;
    mapping.executable = (flags & 4) != 0;
    mapping.deleted = (flags & 8) != 0;
    mapping.path = in.take_text();
    if (raw(mapping.end) < raw(mapping.start)) in.fail();
    return mapping;
}

void put_answers(ByteWriter& out, pid_t tid, const ThreadAnswers& answers) {
    put_pid(out, tid);
    out.put(static_cast<std::uint8_t>(answers.activity.kind));
    out.put(as_unsigned(answers.activity.syscall));
    for (const std::uint64_t argument : answers.activity.arguments) out.put(argument);
    out.put(raw(answers.activity.stack_pointer));
    out.put(raw(answers.activity.program_counter));
    out.put(static_cast<std::uint8_t>(answers.switch_count ? 1 : 0));
    out.put(answers.switch_count.value_or(0));
    out.put(static_cast<std::uint8_t>(answers.state_letter));
    out.put_text(answers.name);
}

void take_answers(ByteReader& in, Snapshot& snapshot) {
    const pid_t tid = take_pid(in);
    ThreadAnswers answers;
    const auto kind = in.take<std::uint8_t>();
    if (kind > static_cast<std::uint8_t>(Activity::Kind::kGone)) return in.fail();
    answers.activity.kind = static_cast<Activity::Kind>(kind);
    answers.activity.syscall = static_cast<std::int64_t>(in.take<std::uint64_t>());
    for (std::uint64_t& argument : answers.activity.arguments) argument = in.take<std::uint64_t>();
    answers.activity.stack_pointer = Address{in.take<std::uint64_t>()};
    answers.activity.program_counter = Address{in.take<std::uint64_t>()};
    const bool has_count = in.take<std::uint8_t>() != 0;
    const auto count = in.take<std::uint64_t>();
    if (has_count) answers.switch_count = count;
    answers.state_letter = static_cast<char>(in.take<std::uint8_t>());
    answers.name = in.take_text();
    if (!in.has_failed()) snapshot.thread_answers[tid] = std::move(answers);
}

using Answers = std::map<std::string, std::optional<ModuleFile::Section>, std::less<>>;

void put_named(ByteWriter& out, const Answers& answers) {
    out.put(static_cast<std::uint32_t>(answers.size()));
    for (const auto& [name, section] : answers) {
        out.put_text(name);
        out.put(static_cast<std::uint8_t>(section ? 1 : 0));
        out.put(section ? raw(section->address) : 0);
        out.put(section ? section->size : std::uint64_t{0});
    }
}

Answers take_named(ByteReader& in) {
    Answers answers;
    take_list(in, [&] {
        std::string name = in.take_text();
        const bool is_there = in.take<std::uint8_t>() != 0;
        const FileAddress address{in.take<std::uint64_t>()};
        const auto size = in.take<std::uint64_t>();
        answers[std::move(name)] =
            is_there ? std::optional(ModuleFile::Section{address, size}) : std::nullopt;
    });
    return answers;
}

void put_module(ByteWriter& out, const ModuleAnswers& module) {
    put_mapping(out, module.mapping);
    out.put_text(module.build_id);
    out.put(static_cast<std::uint32_t>(module.segments.size()));
    for (const auto& segment : module.segments) {
        for (const std::uint64_t number :
             {raw(segment.address), segment.file_offset, segment.file_size, segment.memory_size}) {
            out.put(number);
        }
        out.put(static_cast<std::uint8_t>(segment.writable ? 1 : 0));
    }
    put_named(out, module.sections);
    put_named(out, module.symbols);
}

ModuleAnswers take_module(ByteReader& in) {
    ModuleAnswers module;
    module.mapping = take_mapping(in);
    module.build_id = in.take_text();
    take_list(in, [&] {
        ModuleFile::Segment segment;
        segment.address = FileAddress{in.take<std::uint64_t>()};
        segment.file_offset = in.take<std::uint64_t>();
        segment.file_size = in.take<std::uint64_t>();
        segment.memory_size = in.take<std::uint64_t>();
        segment.writable = in.take<std::uint8_t>() != 0;
        module.segments.push_back(segment);
    });
    module.sections = take_named(in);
    module.symbols = take_named(in);
    return module;
}

void take_record(Tag tag, ByteReader& in, Snapshot& snapshot) {
    switch (tag) {
        case Tag::kFacts:
            return take_facts(in, snapshot);
        case Tag::kMapping:
            return snapshot.mappings.push_back(take_mapping(in));
        case Tag::kThread: {
            const pid_t tid = take_pid(in);
            return snapshot.threads.push_back({tid, take_pid(in)});
        }
        case Tag::kThreadAnswers:
            return take_answers(in, snapshot);
        case Tag::kModule:
            return snapshot.modules.push_back(take_module(in));
        case Tag::kMemory: {
            const Address from{in.take<std::uint64_t>()};
            const auto bytes = in.take_bytes(in.take<std::uint32_t>());
            if (!snapshot.memory.add(from, bytes)) in.fail();
            return;
        }
    }
}

Error damaged(std::string_view what) {
    return {ExitCode::kFailure, fmt::format("the snapshot is damaged ({})", what), "take it again"};
}

std::vector<std::byte> deflate_all(std::span<const std::byte> plain) {
    uLongf size = compressBound(plain.size());
    std::vector<std::byte> packed(size);
    const int result =
        compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                  reinterpret_cast<const Bytef*>(plain.data()), plain.size(), Z_BEST_COMPRESSION);
    check(result == Z_OK, "zlib could not compress into a buffer of its own choice");
    packed.resize(size);
    return packed;
}

struct InflateEnd {
    z_stream& stream;
    ~InflateEnd() { inflateEnd(&stream); }
};

// Grows with what comes out, never with what a header claims.
Result<std::vector<std::byte>> inflate_all(std::span<const std::byte> packed) {
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) return fail(ExitCode::kFailure, "zlib does not start");
    const InflateEnd end{stream};
    // zlib reads through a pointer that is not const and changes nothing.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    std::vector<std::byte> plain;
    std::array<std::byte, 65536> piece{};
    for (int result = Z_OK; result != Z_STREAM_END;) {
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = piece.size();
        result = inflate(&stream, Z_NO_FLUSH);
        const std::size_t got = piece.size() - stream.avail_out;
        if (result != Z_STREAM_END && (result != Z_OK || (got == 0 && stream.avail_in == 0))) {
            return tl::unexpected<Error>(damaged("compression"));
        }
        if (plain.size() + got > kMostRecordBytes) return tl::unexpected<Error>(damaged("size"));
        plain.insert(plain.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got));
    }
    return plain;
}

}  // namespace

std::vector<std::byte> encode_snapshot(const Snapshot& snapshot) {
    ByteWriter records;
    const auto put_record = [&](Tag tag, auto&& put) {
        ByteWriter payload;
        put(payload);
        records.put(static_cast<std::uint8_t>(tag));
        records.put(static_cast<std::uint64_t>(payload.bytes().size()));
        records.put_bytes(payload.bytes());
    };
    put_record(Tag::kFacts, [&](ByteWriter& out) { put_facts(out, snapshot); });
    for (const auto& mapping : snapshot.mappings) {
        put_record(Tag::kMapping, [&](ByteWriter& out) { put_mapping(out, mapping); });
    }
    for (const auto& thread : snapshot.threads) {
        put_record(Tag::kThread, [&](ByteWriter& out) {
            put_pid(out, thread.tid);
            put_pid(out, thread.namespace_tid);
        });
    }
    for (const auto& [tid, answers] : snapshot.thread_answers) {
        put_record(Tag::kThreadAnswers,
                   [&, id = tid, &a = answers](ByteWriter& out) { put_answers(out, id, a); });
    }
    for (const auto& module : snapshot.modules) {
        put_record(Tag::kModule, [&](ByteWriter& out) { put_module(out, module); });
    }
    snapshot.memory.for_each_run([&](Address from, std::span<const std::byte> bytes) {
        put_record(Tag::kMemory, [&](ByteWriter& out) {
            out.put(raw(from));
            out.put(static_cast<std::uint32_t>(bytes.size()));
            out.put_bytes(bytes);
        });
    });
    ByteWriter file;
    file.put_bytes(std::as_bytes(std::span(kMagic)));
    file.put(kVersion);
    file.put_bytes(deflate_all(records.bytes()));
    return file.bytes();
}

Result<Snapshot> decode_snapshot_records(std::span<const std::byte> records) {
    Snapshot snapshot;
    ByteReader in(records);
    while (!in.is_at_end()) {
        const auto tag = in.take<std::uint8_t>();
        ByteReader payload(in.take_bytes(in.take<std::uint64_t>()));
        if (in.has_failed()) return tl::unexpected<Error>(damaged("a record is cut short"));
        take_record(static_cast<Tag>(tag), payload, snapshot);
        if (payload.has_failed())
            return tl::unexpected<Error>(damaged(fmt::format("record of kind {}", tag)));
    }
    return snapshot;
}

Result<Snapshot> decode_snapshot(std::span<const std::byte> file) {
    ByteReader in(file);
    const auto magic = in.take_bytes(kMagic.size());
    const auto version = in.take<std::uint32_t>();
    if (in.has_failed() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
        return fail(ExitCode::kFailure, "this is not a snapshot of pyprof");
    }
    if (version != kVersion) {
        return fail(ExitCode::kFailure,
                    fmt::format("the snapshot has format {}, which is not known here", version),
                    fmt::format("this pyprof reads format {}", kVersion));
    }
    const auto records = inflate_all(file.subspan(kMagic.size() + sizeof version));
    if (!records) return tl::unexpected<Error>(records.error());
    return decode_snapshot_records(*records);
}

Result<void> write_snapshot(const Snapshot& snapshot, const std::string& path, std::optional<FileOwner> owner) {
    const auto bytes = encode_snapshot(snapshot);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    // Only root can give a file away; where it fails, the file is root's.
    if (file && owner && ::fchown(file.get(), owner->uid, owner->gid) != 0) errno = 0;
    if (!file) file = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600));
    std::span<const std::byte> left(bytes);
    while (file && !left.empty()) {
        const ssize_t written = ::write(file.get(), left.data(), left.size());
        if (written < 0 && errno != EINTR) break;
        if (written > 0) left = left.subspan(static_cast<std::size_t>(written));
    }
    if (file && left.empty()) return {};
    return fail(ExitCode::kFailure, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

Result<Snapshot> read_snapshot(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    std::vector<std::byte> bytes;
    std::array<std::byte, 65536> piece{};
    ssize_t got = file ? 1 : -1;
    while (got > 0 || (got < 0 && file && errno == EINTR)) {
        got = ::read(file.get(), piece.data(), piece.size());
        if (got > 0) bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
        if (bytes.size() > kMostFileBytes)
            return fail(ExitCode::kFailure, fmt::format("'{}' is too large", path));
    }
    if (got < 0)
        return fail(ExitCode::kFailure, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    auto snapshot = decode_snapshot(bytes);
    if (!snapshot) return tl::unexpected<Error>(with_context(snapshot.error(), path));
    return snapshot;
}

}  // namespace pyprof
