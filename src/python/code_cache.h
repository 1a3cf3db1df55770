// SPDX-License-Identifier: Apache-2.0
//
// What is known of the target's code objects. A code address may be freed and become another function,
// so an entry carries a stamp: the bytes of the object that name it and, up to 3.11, where no version
// number tells two objects apart, the beginnings of its name and file: a program that makes the same
// objects again and again gets the same addresses for all of them. The stamp is compared again before
// any sample that used the entry is believed (sample/epoch.h), and an entry that fails is dropped.
#pragma once

#include <pyprof/error.h>
#include <pyprof/layout.h>
#include <pyprof/memory.h>
#include <pyprof/profile.h>

#include "python/line_table.h"
#include "target/page_cache.h"

#include <tsl/robin_map.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace pyprof {

using CodeIndex = std::uint32_t;
constexpr CodeIndex kNoCode = ~0U;

class CodeCache {
public:
    struct Entry {
        Address address{};
        Address bytecode{};          // first code unit; null up to 3.10, where instructions are indices
        std::uint32_t unit_count = 0;  // code units (bytes for 3.8 and 3.9)
        std::uint32_t serial = 0;      // never given twice, unlike an index
        std::uint32_t identity = 0;  // equal for equal name, file and first line: what a path is made of
        std::uint32_t version = 0;   // co_version, 0 where there is none
        std::uint32_t frame_words = 0;  // co_framesize: words that its frame takes on the data stack, 3.11 on
        std::int32_t first_line = 0;
        StringId name = kNoString;
        StringId file = kNoString;
        std::uint32_t used_epoch = 0;     // sample/epoch.h: last epoch in which a sample went through it
        std::uint64_t good_until = 0;     // ... ticks in whose samples its name was right
        std::uint64_t verified_until = 0;  // ... ticks that its stamp was seen to outlive
        std::uint64_t last_asked = 0;      // sample/sampler_names.cpp: the question in which it was met last
        std::uint64_t sure_copy = 0;       // ... the copy of frames at which its name was right
        std::chrono::nanoseconds first_used{0}, checked{0};
        bool is_dated = false;            // first_used is set
        std::uint64_t verified_generation = 0;  // code_object_generation at which its stamp held (3.14 on)
        bool is_hidden = false;      // of the interpreter, not of the program: it is never shown
        bool is_generator = false;   // generator, coroutine or asynchronous generator
        bool is_alive = false;
        LineTable lines;
        std::vector<Address> thread_local_bytecode;  // free-threaded 3.14 on
        struct Piece {  // of the target's memory
            static constexpr std::size_t kMaxBytes = 128;
            Address from{};
            std::uint32_t size = 0;
        };
        static constexpr std::size_t kMaxPieces = 3;
        std::array<Piece, kMaxPieces> stamp{};
        std::uint32_t stamp_pieces = 0;
        std::vector<std::byte> stamp_bytes;  // of all pieces, one behind the other, as they were
    };

    CodeCache(Memory& memory, const Layout& layout, StackTable& stacks);

    // kNoCode when the address is not known.
    [[nodiscard]] CodeIndex find(Address address) const;
    // The known code whose bytecode holds this instruction (3.11 on), else kNoCode.
    [[nodiscard]] CodeIndex find_by_instruction(Address instruction) const;
    // Reads the object; kNoCode when what stands there is no code object.
    [[nodiscard]] CodeIndex load_code(Address address);
    // Reads those that are not known yet, together: some three calls for 64 of them. What stands there and is no code
    // object stays unknown.
    void load_codes(std::span<const Address> addresses);
    [[nodiscard]] const Entry& entry(CodeIndex index) const { return entries_[index]; }
    [[nodiscard]] Entry& entry(CodeIndex index) { return entries_[index]; }

    // Index of the instruction within the code (bytes on 3.8 and 3.9, else code units; -1 before the
    // first), nullopt when it does not lie in this code: then frame and code do not belong together.
    [[nodiscard]] std::optional<std::int32_t> instruction_index(CodeIndex index, std::uint64_t raw_instruction);
    [[nodiscard]] std::int32_t line_at(CodeIndex index, std::int32_t instruction) const;

    // Compares the stamps of `used` with the target's memory, in few calls. Entries that changed or
    // vanished are dropped and appended to `stale`. False: the target has ended, and there is no telling of any.
    [[nodiscard]] bool verify(std::span<const CodeIndex> used, std::vector<CodeIndex>& stale);
    // The same comparison alone: which of them stand there as they were read. A dropped one does not.
    void compare(std::span<const CodeIndex> codes, std::vector<bool>& holds);
    void drop(CodeIndex index);
    [[nodiscard]] std::uint64_t drops() const { return drops_; }
    // Dropped indices are given out again only after this call: nobody may hold one any longer.
    void reuse_retired();
    // The code object with this co_version (3.12 on), kNoCode when none is known.
    [[nodiscard]] CodeIndex find_version(std::uint32_t version) const;

    [[nodiscard]] std::size_t size() const { return by_address_.size(); }
    // Of the object that is read next: those read since have this serial or a higher one.
    [[nodiscard]] std::uint32_t next_serial() const { return next_serial_; }

private:
    struct BatchEntry {
        Entry entry;
        std::span<const std::byte> object;
    };
    void load_batch(std::span<const Address> addresses);
    void note_pages(std::span<const std::byte> object);
    void insert(Entry entry);
    bool read_details(Entry& entry, std::span<const std::byte> object);
    bool take_stamp(Entry& entry, std::span<const std::byte> object);
    bool add_string_piece(Entry& entry, Address string);
    static std::span<std::byte> add_piece(Entry& entry, Address from, std::size_t size);
    void compare_entries(std::span<const Entry* const> entries, std::vector<bool>& holds, bool must_live);
    void read_thread_local_bytecode(Memory& memory, Entry& entry);

    Memory& memory_;
    PageCache details_;  // what the objects refer to that are being read
    const Layout& layout_;
    StackTable& stacks_;
    std::uint32_t stamp_begin_ = 0;  // within the code object
    std::uint32_t stamp_bytes_ = 0;
    std::uint32_t object_bytes_ = 0;
    std::deque<Entry> entries_;  // in their thousands: no copy of all when there are more
    std::uint32_t next_serial_ = 0;
    std::vector<CodeIndex> free_;
    std::vector<CodeIndex> retired_;
    std::uint64_t drops_ = 0;
    std::vector<Address> wanted_;  // of one batch, as the next five
    std::vector<std::byte> objects_;
    std::vector<BatchEntry> batch_;
    std::vector<std::uint64_t> pages_;
    std::vector<ReadRange> object_ranges_;
    std::vector<const Entry*> to_compare_;
    std::vector<bool> holds_;  // of the stamps that are compared, as the next three
    std::vector<std::byte> stamp_bytes_now_;
    std::vector<ReadRange> stamp_ranges_;
    std::vector<std::size_t> stamp_owners_;
    std::vector<bool> is_unasked_;  // of those compared last: the target had ended before anything spoke against it
    tsl::robin_map<std::uint64_t, CodeIndex> by_address_;
    tsl::robin_map<std::uint32_t, CodeIndex> by_version_;
    std::map<std::uint64_t, CodeIndex> by_bytecode_;  // start of the bytecode
    struct IdentityKey {
        std::uint32_t name, file;
        std::int32_t first_line;
        bool operator==(const IdentityKey&) const = default;
    };
    struct IdentityHash {
        std::size_t operator()(const IdentityKey& key) const;
    };
    tsl::robin_map<IdentityKey, std::uint32_t, IdentityHash> identities_;
};

}  // namespace pyprof
