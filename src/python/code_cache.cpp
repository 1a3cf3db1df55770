// SPDX-License-Identifier: Apache-2.0
#include "python/code_cache.h"

#include "python/object_kinds.h"
#include "python/objects.h"

#include <algorithm>
#include <cstring>

namespace pyprof {

namespace {

constexpr std::size_t kMaxNameCharacters = 4'096;
constexpr std::size_t kMaxLineTableBytes = 1 << 20;
constexpr std::uint32_t kMaxCodeUnits = 1 << 24;
constexpr std::int32_t kMaxFrameWords = 1 << 20;
constexpr std::size_t kMaxThreadLocalCopies = 4'096;
constexpr std::size_t kMostOfBatch = 64;  // objects, each with up to four pages
// Include/cpython/code.h: CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR.
constexpr std::uint32_t kGeneratorFlags = 0x20 | 0x80 | 0x200;

std::int32_t load_int(std::span<const std::byte> object, Offset offset) {
    return load<std::int32_t>(object.data(), static_cast<std::size_t>(offset));
}

Address load_pointer(std::span<const std::byte> object, Offset offset) {
    return Address{load<std::uint64_t>(object.data(), static_cast<std::size_t>(offset))};
}

// Whether an object stands there that was not freed since; `header` begins with it. Its count of references is the low half
// of the first word; above it there is nothing up to 3.13, and flags and a count of overflows, mostly 0, from 3.14 on
// (Include/object.h). A freed block holds the address of the next one there, or null (Objects/obmalloc.c); one of
// glibc's malloc also a random number in place of the type.
//
// Free-threaded builds count the owner's references (ob_ref_local) and those of others (ob_ref_shared, above two flags):
// both are zero before an object is freed, and only the first word of a free block is overwritten.
bool is_live(const Layout& layout, std::span<const std::byte> header) {
    if (!can_be_object(load_pointer(header, layout.object.type))) return false;
    if (layout.object.type != 8) {
        constexpr std::size_t kLocal = 12;
        constexpr std::size_t kShared = 16;
        return load<std::uint32_t>(header.data(), kLocal) != 0 || load<std::uint64_t>(header.data(), kShared) >> 2U != 0;
    }
    const auto word = load<std::uint64_t>(header.data(), 0);
    return (word & 0xFFFF'FFFFU) != 0 && (word >> 32 & 0xFFFFU) == 0;
}

}  // namespace

std::size_t CodeCache::IdentityHash::operator()(const IdentityKey& key) const {
    std::uint64_t mixed = (static_cast<std::uint64_t>(key.name) << 32) ^ key.file;
    mixed ^= static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.first_line)) * 0x9E3779B97F4A7C15ULL;
    mixed *= 0xBF58476D1CE4E5B9ULL;
    return static_cast<std::size_t>(mixed ^ (mixed >> 29));
}

CodeCache::CodeCache(Memory& memory, const Layout& layout, StackTable& stacks)
    : memory_(memory), details_(memory), layout_(layout), stacks_(stacks) {
    const Layout::Code& code = layout.code;
    // Everything that names a code object: its strings, first line, table and, where there is one, version.
    Offset first = code.first_line;
    Offset last = code.first_line + 4;
    for (const Offset offset : {code.filename, code.name, code.qualname, code.line_table}) {
        if (!has(offset)) continue;
        first = std::min(first, offset);
        last = std::max(last, offset + 8);
    }
    if (has(code.version)) {
        first = std::min(first, code.version);
        last = std::max(last, code.version + 4);
    }
    stamp_begin_ = static_cast<std::uint32_t>(first);
    stamp_bytes_ = static_cast<std::uint32_t>(last - first);
    check(stamp_bytes_ <= Entry::Piece::kMaxBytes, "a code stamp longer than its store");
    for (const Offset offset : {code.bytecode, code.flags, code.frame_size, code.tlbc, code.unit_count, code.first_traceable}) {
        last = std::max(last, offset + 8);
    }
    object_bytes_ = static_cast<std::uint32_t>(last);
}

CodeIndex CodeCache::find(Address address) const {
    const auto found = by_address_.find(raw(address));
    return found == by_address_.end() ? kNoCode : found->second;
}

CodeIndex CodeCache::find_by_instruction(Address instruction) const {
    auto next = by_bytecode_.upper_bound(raw(instruction));
    if (next == by_bytecode_.begin()) return kNoCode;
    --next;
    const Entry& entry = entries_[next->second];
    return raw(instruction) < next->first + std::uint64_t{2} * entry.unit_count ? next->second : kNoCode;
}

CodeIndex CodeCache::find_version(std::uint32_t version) const {
    const auto found = by_version_.find(version);
    return found == by_version_.end() ? kNoCode : found->second;
}

CodeIndex CodeCache::load_code(Address address) {
    load_codes(std::span(&address, 1));
    return find(address);
}

// A batch without a single code object is the last one: what stands there is no stack.
void CodeCache::load_codes(std::span<const Address> addresses) {
    for (std::size_t next = 0; next < addresses.size();) {
        wanted_.clear();
        for (; next < addresses.size() && wanted_.size() < kMostOfBatch; ++next) {
            const Address address = addresses[next];
            if (raw(address) >= PageCache::kPageSize && find(address) == kNoCode) wanted_.push_back(address);
        }
        std::sort(wanted_.begin(), wanted_.end());
        wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
        const std::uint32_t loaded = next_serial_;
        load_batch(wanted_);
        if (next_serial_ == loaded) break;
    }
}

// The objects first, then what they refer to, then their stamps again: what was read in between belongs to an object
// only if its stamp still stands. One that was freed may keep its stamp while its strings become those of others, for as
// long as the target is off the processor: it has no name.
void CodeCache::load_batch(std::span<const Address> addresses) {
    objects_.resize(addresses.size() * object_bytes_);
    object_ranges_.clear();
    const auto object = [&](std::size_t i) { return std::span(objects_).subspan(i * object_bytes_, object_bytes_); };
    for (std::size_t i = 0; i < addresses.size(); ++i) object_ranges_.push_back({addresses[i], object(i)});
    batch_.clear();
    pages_.clear();
    for (std::size_t done = 0; done < addresses.size(); ++done) {  // the one at which a call stopped is left out
        const std::size_t complete = memory_.read(std::span(object_ranges_).subspan(done)).complete;
        for (const std::size_t end = done + complete; done < end; ++done) {
            if (!is_live(layout_, object(done))) continue;
            batch_.push_back({{}, object(done)});
            batch_.back().entry.address = addresses[done];
            note_pages(object(done));
        }
    }
    std::sort(pages_.begin(), pages_.end());
    pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
    details_.begin_part(pages_);
    std::erase_if(batch_, [&](BatchEntry& read) { return !take_stamp(read.entry, read.object) || !read_details(read.entry, read.object); });
    to_compare_.clear();
    for (BatchEntry& read : batch_) {
        read.entry.is_alive = true;
        to_compare_.push_back(&read.entry);
    }
    compare_entries(to_compare_, holds_, true);
    for (std::size_t i = 0; i < batch_.size(); ++i) {
        if (holds_[i]) insert(std::move(batch_[i].entry));
    }
}

// The pages of what `object` refers to. Texts and tables are short; where one goes on behind its page, that is read alone.
void CodeCache::note_pages(std::span<const std::byte> object) {
    const Layout::Code& code = layout_.code;
    for (const Offset field : {shown_name(code), code.filename, code.line_table, code.tlbc,
                               has(code.unit_count) ? kAbsent : code.bytecode}) {
        if (has(field)) pages_.push_back(raw(load_pointer(object, field)) / PageCache::kPageSize);
    }
}

void CodeCache::insert(Entry entry) {
    CodeIndex index = static_cast<CodeIndex>(entries_.size());
    entry.serial = next_serial_++;
    if (free_.empty()) {
        entries_.push_back(std::move(entry));
    } else {
        index = free_.back();
        free_.pop_back();
        entries_[index] = std::move(entry);
    }
    const Entry& known = entries_[index];
    by_address_[raw(known.address)] = index;
    if (known.bytecode != kNullAddress) by_bytecode_[raw(known.bytecode)] = index;
    if (known.version != 0) by_version_[known.version] = index;
}

bool CodeCache::take_stamp(Entry& entry, std::span<const std::byte> object) {
    const auto names = object.subspan(stamp_begin_, stamp_bytes_);
    std::copy(names.begin(), names.end(), add_piece(entry, entry.address + stamp_begin_, names.size()).begin());
    const Layout::Code& code = layout_.code;
    if (has(code.version) && load_int(object, code.version) != 0) return true;
    return add_string_piece(entry, load_pointer(object, shown_name(code))) &&
           add_string_piece(entry, load_pointer(object, code.filename));
}

// Length, hash and state of a str, and the beginning of its text where that is plain: the hash is -1 until
// somebody asks for it.
bool CodeCache::add_string_piece(Entry& entry, Address string) {
    constexpr std::uint64_t kTextBytes = 48;
    const Layout::Unicode& unicode = layout_.unicode;
    const auto length = read_value<std::int64_t>(details_, string + static_cast<std::uint64_t>(unicode.length));
    if (!length || *length < 0) return false;
    const auto text = std::min(static_cast<std::uint64_t>(*length), kTextBytes);
    const Address from = string + static_cast<std::uint64_t>(unicode.length);
    return read_bytes(details_, from, add_piece(entry, from, static_cast<std::uint64_t>(unicode.ascii_data - unicode.length) + text));
}

std::span<std::byte> CodeCache::add_piece(Entry& entry, Address from, std::size_t size) {
    check(size <= Entry::Piece::kMaxBytes, "a piece of a stamp longer than its store");
    entry.stamp[entry.stamp_pieces++] = {from, static_cast<std::uint32_t>(size)};
    entry.stamp_bytes.resize(entry.stamp_bytes.size() + size);
    return std::span(entry.stamp_bytes).last(size);
}

bool CodeCache::read_details(Entry& entry, std::span<const std::byte> object) {
    const Layout::Code& code = layout_.code;
    const Address name_address = load_pointer(object, shown_name(code));
    const auto name = read_unicode(details_, layout_, name_address, kMaxNameCharacters);
    const auto file = read_unicode(details_, layout_, load_pointer(object, code.filename), kMaxNameCharacters);
    const auto table = read_bytes_object(details_, layout_, load_pointer(object, code.line_table), kMaxLineTableBytes);
    if (!name || !file || !table) return false;

    if (has(code.unit_count)) {
        const auto units = load<std::int64_t>(object.data(), static_cast<std::size_t>(code.unit_count));
        if (units <= 0 || units > kMaxCodeUnits) return false;
        entry.unit_count = static_cast<std::uint32_t>(units);
        entry.bytecode = entry.address + static_cast<std::uint64_t>(code.bytecode);
    } else {
        const auto size = read_value<std::int64_t>(
            details_, load_pointer(object, code.bytecode) + static_cast<std::uint64_t>(layout_.bytes.size));
        if (!size || *size <= 0 || *size > kMaxCodeUnits) return false;
        const bool in_bytes = layout_.instruction_kind == InstructionKind::kByteIndex;
        entry.unit_count = static_cast<std::uint32_t>(in_bytes ? *size : *size / 2);
    }
    entry.first_line = load_int(object, code.first_line);
    if (has(code.flags)) {
        entry.is_generator = (static_cast<std::uint32_t>(load_int(object, code.flags)) & kGeneratorFlags) != 0;
    }
    // The frame that calls __init__ for a class (3.13 on) runs code that can't be traced at all.
    if (has(code.first_traceable)) {
        entry.is_hidden = load_int(object, code.first_traceable) >= static_cast<std::int32_t>(entry.unit_count);
    }
    if (has(code.frame_size)) {
        const std::int32_t words = load_int(object, code.frame_size);
        if (words > 0 && words < kMaxFrameWords) entry.frame_words = static_cast<std::uint32_t>(words);
    }
    if (has(code.version)) entry.version = static_cast<std::uint32_t>(load_int(object, code.version));
    entry.name = stacks_.intern_string(*name);
    entry.file = stacks_.intern_string(*file);
    entry.lines = LineTable::decode(*table, entry.first_line, layout_.line_table_kind,
                                    static_cast<int>(entry.unit_count));
    const IdentityKey key{raw(entry.name), raw(entry.file), entry.first_line};
    entry.identity = identities_.try_emplace(key, static_cast<std::uint32_t>(identities_.size())).first->second;
    if (has(code.tlbc)) read_thread_local_bytecode(details_, entry);
    return true;
}

// Include/internal/pycore_code.h: _PyCodeArray is a size followed by that many pointers to copies of the
// bytecode; entry 0 is the code object's own.
void CodeCache::read_thread_local_bytecode(Memory& memory, Entry& entry) {
    const auto array = read_pointer(memory, entry.address + static_cast<std::uint64_t>(layout_.code.tlbc));
    if (!array || *array == kNullAddress) return;
    const auto size = read_value<std::uint64_t>(memory, *array);
    if (!size || *size > kMaxThreadLocalCopies) return;
    std::vector<std::uint64_t> copies(static_cast<std::size_t>(*size));
    if (!read_bytes(memory, *array + 8, std::as_writable_bytes(std::span(copies)))) return;
    entry.thread_local_bytecode.clear();
    for (const std::uint64_t copy : copies) {
        if (copy != 0) entry.thread_local_bytecode.push_back(Address{copy});
    }
}

std::optional<std::int32_t> CodeCache::instruction_index(CodeIndex index, std::uint64_t raw_instruction) {
    Entry& entry = entries_[index];
    if (entry.bytecode == kNullAddress) {
        const auto signed_index = static_cast<std::int64_t>(raw_instruction);
        if (signed_index < -1 || signed_index >= static_cast<std::int64_t>(entry.unit_count)) return std::nullopt;
        return static_cast<std::int32_t>(signed_index);
    }
    const auto within = [&](Address start) -> std::optional<std::int32_t> {
        const auto bytes = static_cast<std::int64_t>(raw_instruction - raw(start));
        if (bytes < -2 || bytes >= static_cast<std::int64_t>(entry.unit_count) * 2 || bytes % 2 != 0) {
            return std::nullopt;
        }
        return static_cast<std::int32_t>(bytes / 2);
    };
    if (const auto found = within(entry.bytecode)) return found;
    if (!has(layout_.code.tlbc)) return std::nullopt;
    for (int attempt = 0; attempt < 2; ++attempt) {
        for (const Address copy : entry.thread_local_bytecode) {
            if (const auto found = within(copy)) return found;
        }
        if (attempt == 0) read_thread_local_bytecode(memory_, entry);  // a thread may have got its copy since
    }
    return std::nullopt;
}

std::int32_t CodeCache::line_at(CodeIndex index, std::int32_t instruction) const {
    const std::int32_t line = entries_[index].lines.line_at(instruction);
    return line < 0 ? 0 : line;
}

bool CodeCache::verify(std::span<const CodeIndex> used, std::vector<CodeIndex>& stale) {
    compare(used, holds_);
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (holds_[i] || is_unasked_[i]) continue;
        stale.push_back(used[i]);
        drop(used[i]);
    }
    return std::find(is_unasked_.begin(), is_unasked_.end(), true) == is_unasked_.end();
}

void CodeCache::compare(std::span<const CodeIndex> codes, std::vector<bool>& holds) {
    to_compare_.clear();
    for (const CodeIndex code : codes) to_compare_.push_back(&entries_[code]);
    compare_entries(to_compare_, holds, false);
}

// `must_live`: first it must be seen alive.
void CodeCache::compare_entries(std::span<const Entry* const> entries, std::vector<bool>& holds, bool must_live) {
    constexpr std::size_t kBatch = 256;
    stamp_bytes_now_.resize(kBatch * Entry::Piece::kMaxBytes);
    holds.assign(entries.size(), true);
    is_unasked_.assign(entries.size(), false);
    std::vector<ReadRange>& ranges = stamp_ranges_;
    std::vector<std::size_t>& owner = stamp_owners_;  // of each range: index into `entries`
    ranges.clear();
    owner.clear();
    const auto compare_batch = [&] {
        std::size_t done = 0;
        std::size_t nth = 0;  // of its owner
        std::size_t behind = 0;  // the stamp's bytes that were compared already
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            if (i >= done) {
                const ReadOutcome outcome = memory_.read(std::span(ranges).subspan(i));
                done += outcome.complete;
                if (done == i) {  // this one can't be read
                    if (holds[owner[i]] && outcome.fault == ReadFault::kGone) is_unasked_[owner[i]] = true;
                    holds[owner[i]] = false;
                    ++done;
                }
            }
            nth = i > 0 && owner[i] == owner[i - 1] ? nth + 1 : 0;
            if (nth == 0) behind = 0;
            if (must_live && nth == 0) {
                if (!is_live(layout_, ranges[i].to)) holds[owner[i]] = false;
                continue;
            }
            const auto now = ranges[i].to;
            if (std::memcmp(now.data(), entries[owner[i]]->stamp_bytes.data() + behind, now.size()) != 0) holds[owner[i]] = false;
            behind += now.size();
        }
        ranges.clear();
        owner.clear();
    };
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry& entry = *entries[i];
        if (!entry.is_alive) {
            holds[i] = false;
            continue;
        }
        if (ranges.size() + 1 + entry.stamp_pieces > kBatch) compare_batch();
        const auto add = [&](Address from, std::uint32_t size) {
            ranges.push_back({from, std::span(stamp_bytes_now_).subspan(ranges.size() * Entry::Piece::kMaxBytes, size)});
            owner.push_back(i);
        };
        if (must_live) add(entry.address, layout_.object.header_size);
        for (std::uint32_t p = 0; p < entry.stamp_pieces; ++p) add(entry.stamp[p].from, entry.stamp[p].size);
    }
    compare_batch();
}

void CodeCache::drop(CodeIndex index) {
    Entry& entry = entries_[index];
    if (!entry.is_alive) return;
    entry.is_alive = false;
    ++drops_;
    const auto found = by_address_.find(raw(entry.address));
    if (found != by_address_.end() && found->second == index) by_address_.erase(found);
    if (entry.version != 0) by_version_.erase(entry.version);
    by_bytecode_.erase(raw(entry.bytecode));
    entry.lines = LineTable();
    retired_.push_back(index);
}

void CodeCache::reuse_retired() {
    free_.insert(free_.end(), retired_.begin(), retired_.end());
    retired_.clear();
}

}  // namespace pyprof
