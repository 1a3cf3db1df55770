// SPDX-License-Identifier: Apache-2.0
//
// The formats are those of the kernel's tools/perf/Documentation: jit-interface.txt and jitdump-specification.txt.
#include "native/jit_names.h"

#include <pyprof/memory.h>

#include <charconv>
#include <iterator>

namespace pyprof {
namespace {

constexpr std::size_t kMostRanges = std::size_t{1} << 20;
constexpr std::size_t kLongestName = 1024;
constexpr std::uint32_t kMagic = 0x4A695444;  // "JiTD"
constexpr std::size_t kHeaderSizeAt = 8;
constexpr std::size_t kSmallestHeader = 40;
constexpr std::uint32_t kCodeLoad = 0;
constexpr std::size_t kRecordHeader = 16;  // id, size, time
constexpr std::size_t kLoadHeader = 56;    // ... pid, tid, vma, code address, code size, index
constexpr std::size_t kCodeAddressAt = 32;
constexpr std::size_t kCodeSizeAt = 40;

// A number in hex and the space behind it.
std::optional<std::uint64_t> take_hex(std::string_view& line) {
    if (line.substr(0, 2) == "0x") line.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
    if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    return value;
}

}  // namespace

// The parts of other ranges that the new one does not cover keep their names.
void JitNames::add(std::uint64_t begin, std::uint64_t size, std::string_view name) {
    if (size == 0 || size > ~begin || name.empty()) return;
    const std::uint64_t end = begin + size;
    cut(begin);
    cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    if (ranges_.size() >= kMostRanges) return;
    ranges_.emplace(begin, Range{end, std::make_shared<const std::string>(name.substr(0, kLongestName))});
}

// Where a range holds `address` behind its start, a second one begins there. The two share their name: else one long
// name could be made to fill the memory.
void JitNames::cut(std::uint64_t address) {
    const auto above = ranges_.lower_bound(address);
    if (above == ranges_.begin()) return;
    Range& below = std::prev(above)->second;
    if (below.end <= address) return;
    if (ranges_.size() < kMostRanges) ranges_.emplace_hint(above, address, below);
    below.end = address;
}

void JitNames::add_perf_map(std::string_view text) {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        const auto start = take_hex(line);
        const auto size = start ? take_hex(line) : std::nullopt;
        if (size) add(*start, *size, line);
    }
}

std::optional<std::size_t> JitNames::jitdump_header(std::span<const std::byte> bytes) {
    if (bytes.size() < kSmallestHeader || load<std::uint32_t>(bytes.data(), 0) != kMagic) return std::nullopt;
    const std::size_t size = load<std::uint32_t>(bytes.data(), kHeaderSizeAt);
    if (size < kSmallestHeader || size > bytes.size()) return std::nullopt;
    return size;
}

void JitNames::add_jitdump(std::span<const std::byte> bytes) {
    if (const auto header = jitdump_header(bytes)) add_jitdump_records(bytes.subspan(*header));
}

std::optional<std::size_t> JitNames::add_jitdump_records(std::span<const std::byte> bytes) {
    std::size_t at = 0;
    while (bytes.size() - at >= kRecordHeader) {
        const std::byte* record = bytes.data() + at;
        const std::size_t size = load<std::uint32_t>(record, 4);
        if (size < kRecordHeader) return std::nullopt;
        if (size > bytes.size() - at) break;  // it is being written
        if (load<std::uint32_t>(record, 0) == kCodeLoad && size > kLoadHeader) {
            std::string name;
            for (std::size_t i = kLoadHeader; i < size && name.size() < kLongestName && record[i] != std::byte{0}; ++i) {
                name += static_cast<char>(record[i]);
            }
            add(load<std::uint64_t>(record, kCodeAddressAt), load<std::uint64_t>(record, kCodeSizeAt), name);
        }
        at += size;
    }
    return at;
}

std::optional<std::string_view> JitNames::find(Address address) const {
    const auto above = ranges_.upper_bound(raw(address));
    if (above == ranges_.begin()) return std::nullopt;
    const Range& range = std::prev(above)->second;
    if (raw(address) >= range.end) return std::nullopt;
    return *range.name;
}

}  // namespace pyprof
